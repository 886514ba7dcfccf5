// What surrounds the chain on a device: options become numbers, and what the chain found becomes results with the host's provenance.

#include "quantem/dpc/device_dpc.h"

#include <chrono>
#include <cmath>

#include "quantem/core/calibration.h"
#include "quantem/dpc/chain_cuda.h"
#include "quantem/runtime/device_fft.h"

namespace quantem {
namespace dpc_detail {

std::string why_on_host(const DpcOptions& options) {
  using Kind = Descan::Kind;
  const Kind kind = options.descan.kind;
  if (kind != Kind::mean && kind != Kind::none && kind != Kind::fixed)
    return "descan=" + std::string(descan_name(kind)) + " is not done on the device";
  if (!options.rotation_deg && (options.method == RotationMethod::grid || options.method == RotationMethod::grid_abs))
    return "method=" + std::string(method_name(options.method)) + " is not done on the device";
  if (const auto found = find_cufft(); !found) return found.error().message;
  return {};
}

namespace {

// The calibration and options of one call, and the chain's plan made of them.
struct Call {
  const Volume& volume;
  const DpcOptions& options;
  RotationOptions search;
  RotationMethod method = RotationMethod::curl;
  IntegrateOptions integrate;
  ChainPlan plan;
  [[nodiscard]] Extent scan() const { return volume.shape().scan; }
  [[nodiscard]] const Calibration& calibration() const { return volume.calibration(); }
  [[nodiscard]] bool given() const { return options.rotation_deg.has_value(); }
  [[nodiscard]] const char* unit() const { return options.units == IdpcUnits::rad ? "1/A" : "px"; }
};

Result<Done> plan_rotation(Call& call) {
  ChainPlan& plan = call.plan;
  if (call.given()) {
    const Rotation given = given_rotation(call.options);
    QUANTEM_TRY(check_angle(given.rotation_deg));
    plan.search = ChainPlan::Search::given;
    plan.given = cos_sin_deg(given.rotation_deg);
    plan.given_transpose = given.transpose;
    return Done{};
  }
  call.search = search_options(call.calibration(), call.options);
  QUANTEM_TRY_ASSIGN(method, choose_method(call.scan(), call.search));
  call.method = method;
  plan.search = method == RotationMethod::fourier ? ChainPlan::Search::fourier : ChainPlan::Search::curl;
  plan.search_factor = call.search.det_sampling_mrad.value_or(Pair{1, 1});
  plan.search_step = call.search.scan_sampling_A.value_or(Pair{1, 1});
  plan.disc_diameter = 2 * disc_radius(call.search).value_or(0);
  plan.skewness = call.search.polarity == Polarity::skewness;
  if (call.search.polarity == Polarity::defocus) {
    QUANTEM_TRY_ASSIGN(turned, turned_by_defocus(call.search));
    plan.turned = turned;
  }
  return Done{};
}

Result<Call> plan_call(const Volume& volume, const DpcOptions& options) {
  Call call{volume, options, {}, {}, {}, {}};
  QUANTEM_TRY(check_dpc(call.scan(), call.calibration(), options));
  call.plan.scan = call.scan();
  switch (options.descan.kind) {
    case Descan::Kind::none:
      call.plan.subtract = ChainPlan::Subtract::nothing;
      break;
    case Descan::Kind::fixed:
      call.plan.subtract = ChainPlan::Subtract::point;
      call.plan.point = options.descan.fixed;
      break;
    default:
      call.plan.subtract = ChainPlan::Subtract::mean;
  }
  QUANTEM_TRY(plan_rotation(call));
  call.integrate = integrate_options(call.calibration(), options);
  QUANTEM_TRY_ASSIGN(integrate, plan_integration(call.scan(), call.unit(), call.integrate));
  call.plan.integrate = integrate;
  call.plan.factor = component_factor(call.calibration(), options);
  call.plan.map_step = call.calibration().scan_sampling_A.value.value_or(Pair{1, 1});
  return Result<Call>(std::move(call));
}

// What the chain could not say while it ran.
Result<Done> check_found(const Call& call, const ChainRecord& found) {
  if (found.n_valid == 0 && call.options.descan.kind != Descan::Kind::none) return no_position_to_descan();
  if (call.given()) return Done{};
  if (found.n_valid == 0) return no_position_to_rotate();
  if (!found.determined) return neither_curl_nor_divergence(call.scan());
  return Done{};
}

Rotation rotation_of(const Call& call, const ChainRecord& found) {
  if (call.given()) return given_rotation(call.options);
  Rotation r;
  r.rotation_deg = found.flip < 0 ? opposite(found.degrees) : found.degrees;
  r.transpose = found.transpose != 0;
  r.curl_fraction = found.curl_fraction;
  r.method = call.method;
  r.polarity = call.search.polarity;
  if (call.plan.skewness) {
    r.skewness = std::abs(found.skewness);
    r.ambiguous = r.skewness < kAmbiguousSkewness;
  }
  return r;
}

// The records of the fields that the host would have had, without their components.
struct Described {
  ComField descanned, aligned;
  Provenance phase;
};

Described describe(const Call& call, const ChainRecord& found, const Rotation& rotation, std::string_view sums_path) {
  Described d{described_field(call.volume), {}, {}};
  Provenance& p = d.descanned.provenance;
  const Mask* mask = call.options.mask;
  record_selection(call.volume, mask ? mask->bits : BitMask(call.volume.shape().frame_pixels(), true),
                   mask ? mask->parameters : Parameters{}, p);
  p.path = sums_path;
  p.accumulator_dtype = "uint64";
  p.parameters.emplace_back("descan", std::string(descan_name(call.options.descan.kind)));
  if (call.plan.subtract == ChainPlan::Subtract::mean) record_descan_point({found.mean_row, found.mean_col}, p);
  if (call.plan.subtract == ChainPlan::Subtract::point) record_descan_point(call.plan.point, p);
  record_rotation(rotation, call.given(), p);
  d.aligned = d.descanned;
  d.aligned.unit = call.unit();
  record_alignment(rotation.rotation_deg, rotation.transpose, d.aligned.provenance);
  d.phase = scan_image(d.aligned, std::vector<float>{}, "").provenance;
  const auto n_valid = static_cast<std::uint64_t>(found.n_valid);
  record_integration(call.scan(), call.integrate, call.plan.integrate, call.scan().count() - n_valid, d.phase);
  record_phase(call.calibration(), call.options, d.phase);
  d.phase.path = "cuda_cufft_idpc";
  return d;
}

const char* phase_unit(const Call& call) {
  return call.options.units == IdpcUnits::relative ? "relative" : "rad";
}

// Brings one map down.
Result<std::vector<float>> down(CudaContext& context, const float* values, std::uint64_t n) {
  std::vector<float> host(n);
  QUANTEM_TRY(bring_down(context, host.data(), values, n * sizeof(float)));
  return Result<std::vector<float>>(std::move(host));
}

Result<Done> bring_maps(const Call& call, CudaContext& context, const float* maps, const Described& d,
                        DpcResult& result) {
  const std::uint64_t n = call.scan().count();
  const std::string per = std::string(call.unit()) + (call.calibration().scan_sampling_A ? "/A" : "/step");
  const struct {
    Map map;
    Image<float>* image;
    const ComField* field;
    std::string unit;
  } kinds[] = {{com_row, &result.com_row, &d.descanned, "px"},
               {com_col, &result.com_col, &d.descanned, "px"},
               {aligned_row, &result.com_row_aligned, &d.aligned, call.unit()},
               {aligned_col, &result.com_col_aligned, &d.aligned, call.unit()},
               {magnitude, &result.magnitude, &d.aligned, call.unit()},
               {direction, &result.direction_deg, &d.aligned, "deg"},
               {divergence, &result.divergence, &d.aligned, per},
               {curl, &result.curl, &d.aligned, per}};
  for (const auto& kind : kinds) {
    QUANTEM_TRY_ASSIGN(values, down(context, maps + kind.map * n, n));
    *kind.image = scan_image(*kind.field, std::move(values), kind.unit);
  }
  result.valid = BitMask(n, true);
  for (std::uint64_t i = 0; i < n; ++i)
    if (std::isnan(result.com_row.values[i])) result.valid.set(i, false);
  if (!result.valid.all())
    for (Image<float>* image : {&result.com_row, &result.com_col, &result.com_row_aligned, &result.com_col_aligned,
                                &result.magnitude, &result.direction_deg})
      image->valid = result.valid;
  return Done{};
}

}  // namespace

Result<DpcResult> run_dpc_cuda(const Volume& volume, const DpcOptions& options, const Job& job) {
  const auto start = std::chrono::steady_clock::now();
  QUANTEM_TRY_ASSIGN(call, plan_call(volume, options));
  QUANTEM_TRY_ASSIGN(chain, Chain::open(volume, options.mask, call.plan, job));
  const std::uint64_t n = call.scan().count();
  QUANTEM_TRY_ASSIGN(memory, image_memory(chain.context(), (1 + kMaps) * n * sizeof(float)));
  float* phase = memory->as<float>();
  QUANTEM_TRY(chain.queue(phase, phase + n));
  QUANTEM_TRY_ASSIGN(found, chain.record());
  QUANTEM_TRY(check_found(call, found));
  DpcResult result;
  result.rotation = rotation_of(call, found);
  result.rotation_given = call.given();
  const Described d = describe(call, found, result.rotation, chain.path());
  QUANTEM_TRY(bring_maps(call, chain.context(), phase + n, d, result));
  QUANTEM_TRY_ASSIGN(values, down(chain.context(), phase, n));
  result.phase = scan_image(d.aligned, std::move(values), phase_unit(call));
  result.phase.provenance = result.provenance = d.phase;
  result.descan = options.descan.kind;
  result.filled = n - static_cast<std::uint64_t>(found.n_valid);
  result.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace dpc_detail

void prepare_dpc(const Device& device, Extent scan, const DpcOptions& options) {
  if (device.backend() != Backend::cuda || scan.count() == 0 || !find_cufft()) return;
  const auto context = CudaContext::of(device);
  if (!context) return;
  const bool twice = options.boundary.value_or(default_boundary(options.units)) == Boundary::zeropad;
  const Extent cell = twice ? Extent{2 * scan.rows, 2 * scan.cols} : scan;
  const auto lock = (*context)->query_lock();
  for (const DeviceFft::Kind kind : {DeviceFft::Kind::complex, DeviceFft::Kind::real_inverse})
    if (!DeviceFft::of(**context, kind, cell)) return;
}

Result<DeviceDpc> run_dpc_on_device(const Volume& volume, const DpcOptions& options, const Job& job) {
  using namespace dpc_detail;
  QUANTEM_TRY(volume.check_open());
  if (!volume.sliced_device())
    return Error{Code::unsupported,
                 "dpc on the device: the counts are " + std::string(representation_name(volume.representation())) +
                     " on '" + volume.device().label() + "'; load them encoded with backend='cuda', or use run_dpc()"};
  if (const std::string reason = why_on_host(options); !reason.empty())
    return Error{Code::unsupported, "dpc on the device: " + reason + "; use run_dpc(), which goes through the host"};
  QUANTEM_TRY_ASSIGN(call, plan_call(volume, options));
  QUANTEM_TRY_ASSIGN(chain, Chain::open(volume, options.mask, call.plan, job));
  const std::uint64_t n = call.scan().count();
  QUANTEM_TRY_ASSIGN(memory, image_memory(chain.context(), n * sizeof(float)));
  QUANTEM_TRY(chain.queue(memory->as<float>(), nullptr));
  QUANTEM_TRY_ASSIGN(found, chain.record());
  QUANTEM_TRY(check_found(call, found));
  const Rotation rotation = rotation_of(call, found);
  const Described d = describe(call, found, rotation, chain.path());
  Image<float> about = scan_image(d.aligned, std::vector<float>{}, phase_unit(call));
  about.provenance = d.phase;
  return DeviceDpc{DeviceImage(std::move(about), volume.device(), std::move(memory)), rotation, call.given(),
                   n - static_cast<std::uint64_t>(found.n_valid)};
}

}  // namespace quantem
