// Signals that a long job listens to. SIGINT, SIGTERM and SIGHUP ask it to stop at the next good
// moment, and a second one ends it at once; SIGUSR1 asks it to save and to go on, which is what
// batch systems send before they take the machine away.
#pragma once

#include <cstdint>

namespace norma {

/// What the first signal does; the second one always ends the process.
enum class FirstSignal : std::uint8_t {
  ends,  // there is nothing to save yet: it ends the process too
  noted
};

/// From here on the first signal does as said; a later call changes that. Call it before any other
/// thread is started. A SIGHUP that was ignored before (nohup) stays ignored, and a reader of our
/// output that goes away (SIGPIPE) does not end the job.
///
/// Signals are blocked in this thread and in those it will start, and a thread of their own waits
/// for them: oneDNN's generated matrix products do not keep their stack pointer on the stack, so a
/// handler that runs on top of one writes into the heap (seen as "corrupted size vs. prev_size").
void watch_stop_signals(FirstSignal first = FirstSignal::noted);
/// The number of the signal that asked to stop, or 0.
int stop_signal();
/// Whether SIGUSR1 came since the last take_save_request(), which says the same.
bool save_requested();
bool take_save_request();

}  // namespace norma
