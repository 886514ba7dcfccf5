#pragma once
// Of this area only: centre of mass -> descan -> rotation -> align -> integrate on a CUDA device, queued as one chain of launches; the
// angle is found and used there. The formulas are those of descan.h, rotation.h and idpc.h; sums are taken in an order that is fixed, so
// the same input gives the same bits.
//   phase  f32  (scan_rows, scan_cols)     finite everywhere
//   maps   f32  kMaps of (scan_rows, scan_cols), the quiet NaN 0x7FC00000 where there is no value
// In double throughout, one rounding each. Launches for mirror or periodic boundary and the curl method: the sums, centre of mass with curl
// moments, packing, transform, solution, transform, phase. fourier and skewness add a transform each and two or three launches.
//
// Mirror without a mirror: on the cell of twice the size the components are a sine and a cosine series, phi is a cosine series. Row and col
// are reordered (even positions up, odd ones down; Makhoul, IEEE Trans. ASSP 28, 27, 1980) and transformed as one complex array of the
// scan's own size; the coefficients phi = -kappa (q_r SC + q_c CS) / (q^2 + epsilon) go back the same way. A quarter of the cell's work.

#include "quantem/detector/moments_on_device.h"
#include "quantem/dpc/steps.h"

namespace quantem::dpc_detail {

// What a chain does, in numbers.
struct ChainPlan {
  enum class Subtract : std::uint8_t { nothing, mean, point };
  enum class Search : std::uint8_t { given, curl, fourier };
  Extent scan;
  Subtract subtract = Subtract::mean;
  Point point;  // Subtract::point
  Search search = Search::curl;
  CosSin given{1, 0};  // Search::given
  bool given_transpose = false;
  Pair search_factor{1, 1}, search_step{1, 1};  // of the components, of the scan, in the search
  double disc_diameter = 0;                     // 2 q_alpha in 1 / unit of search_step; 0: not known
  bool skewness = false;                        // turns the angle by 180 degrees where the phase is skewed to below
  bool turned = false;                          // turns it in any case
  Pair factor{1, 1};                            // pixels to the unit of the integrated field
  IntegratePlan integrate;
  Pair map_step{1, 1};  // of divergence and curl
};

// What a chain finds.
struct ChainRecord {
  double n_valid, mean_row, mean_col;  // over positions that have a value
  double degrees, curl_fraction, cos, sin;
  double flip;      // -1 where the angle is to be turned by 180 degrees: then everything that is aligned changes sign
  double skewness;  // before it
  double phase_mean;
  std::uint32_t transpose, determined;  // 0 or 1; determined: there was some curl or divergence
};

enum Map : std::uint8_t { com_row, com_col, aligned_row, aligned_col, magnitude, direction, divergence, curl };
inline constexpr std::uint64_t kMaps = 8;

class Chain {
 public:
  // Holds the context's query lock from here to its end. Errors: those of MomentsOnDevice and DeviceFft; out_of_memory.
  static Result<Chain> open(const Volume& volume, const Mask* mask, const ChainPlan& plan, const Job& job);
  Chain(Chain&&) noexcept;
  Chain& operator=(Chain&&) noexcept;
  ~Chain();

  [[nodiscard]] CudaContext& context() const;
  [[nodiscard]] std::string_view path() const;          // of the sums
  Result<Done> queue(float* phase, float* maps) const;  // on the query stream; null maps: none
  Result<ChainRecord> record() const;                   // of the last queue(); waits

 private:
  struct State;
  explicit Chain(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quantem::dpc_detail
