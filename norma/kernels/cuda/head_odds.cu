// The head's loss from odds: what is launched for it, in turn.
#include "norma/kernels/cuda/head_odds_tiles.cuh"
#include "norma/kernels/cuda/head_rows.h"

namespace norma::kernels {

namespace {

template <OddsTurn kTurn>
void launch_odds(const char* what, const products::Plan& plan, const products::odds::Arg& arg) {
  launch_tiles(what,
               device::multiprocessors() / 2 * 2,
               products::kThreads,
               products::odds::kBytes,
               products::odds::odds_kernel<kTurn>,
               plan.maps,
               plan.shape,
               arg);
}

}  // namespace

template <>
bool run(Cuda, const HeadOdds<Bf16>& a) {
  products::Plan plan(a.x.rows, a.odds.cols, a.x.cols);
  plan.add(plan.maps.a, a.x, {.rows = products::kTileRows})
      .add(plan.maps.b,
           {a.weight, a.odds.cols, a.x.cols, a.x.cols},
           {.rows = products::kTileColumns / 2})
      .add(plan.maps.out[0], a.odds);
  if (!plan.good() || !odds_fit(a.x, a.weight, a.odds.cols) || !packs(a.shared_x, kPack<Bf16>)) {
    return false;
  }
  const OddsNotes notes = OddsNotes::of(a.scratch, a.x.rows, a.odds.cols);
  const products::odds::Arg arg{notes, a.targets};
  compare_with_targets(a, notes);
  launch_odds<OddsTurn::all>("the odds of classes", plan, arg);
  launch_odds<OddsTurn::largest>("the largest logits", plan, arg);
  launch_odds<OddsTurn::again>("odds in excess", plan, arg);
  finish_odds(a, notes);
  return true;
}
template <>
bool run(Cuda, const HeadOdds<float>&) {
  return false;
}

}  // namespace norma::kernels
