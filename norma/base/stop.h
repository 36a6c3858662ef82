// SIGINT and SIGTERM ask a long job to stop at the next good moment; a second one ends it at once.
#pragma once

namespace norma {

/// From here on the first signal is only noted. Call it before any other thread is started.
///
/// Signals are blocked in this thread and in those it will start, and a thread of their own waits
/// for them: oneDNN's generated matrix products do not keep their stack pointer on the stack, so a
/// handler that runs on top of one writes into the heap (seen as "corrupted size vs. prev_size").
void watch_stop_signals();
/// The number of the signal that came, or 0.
int stop_signal();

}  // namespace norma
