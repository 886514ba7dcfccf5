#include "quantem/io/arina.h"

#include <algorithm>
#include <charconv>

#include "quantem/io/hdf5_part.h"
#include "quantem/io/part_layout.h"
#include "quantem/io/scan_shape.h"
#include "quantem/io/side_file.h"

namespace quantem {
namespace {
using hdf5::File;
using hdf5::Object;

// The number in "data_000012", or nothing.
std::optional<std::uint64_t> part_number(std::string_view name) {
  if (!name.starts_with("data_") || name.size() == 5 || name.size() > 24) return std::nullopt;
  std::uint64_t n = 0;
  const auto [end, fault] = std::from_chars(name.data() + 5, name.data() + name.size(), n);
  return fault == std::errc() && end == name.data() + name.size() ? std::optional(n) : std::nullopt;
}

std::vector<hdf5::Link> image_links(const std::shared_ptr<const File>& file) {
  std::vector<hdf5::Link> images;
  auto group = hdf5::find_object(file, "/entry/data");
  if (!group) return images;
  bool whole = false;
  for (hdf5::Link& link : hdf5::list_links(*group)) {
    if (part_number(link.name))
      images.push_back(std::move(link));
    else
      whole = whole || link.name == "data";
  }
  if (!whole) return images;
  // `data` beside numbered members: a 2024.2 master, whose numbered members `data` maps, when it is 4-D; else an alias.
  if (!images.empty()) {
    const auto object = hdf5::find_object(file, "/entry/data/data");
    const auto shape = object ? hdf5::dataset_shape(*object) : Result<std::vector<std::uint64_t>>(Error(Code::io, ""));
    if (!shape || shape->size() != 4) return images;
    images.clear();
  }
  images.push_back({"data", hdf5::LinkKind::hard, {}, {}});
  return images;
}

// Names of the threshold channels, in the order of the channel axis.
std::vector<std::string> channel_names(const std::shared_ptr<const File>& file) {
  for (const char* path : {"/entry/data/channel", "/entry/instrument/detector/channel_names"}) {
    const auto value = hdf5::read_value(file, path);
    if (!value) continue;
    std::vector<std::string> names;
    for (const auto& v : value->is_array() ? *value : nlohmann::json::array({*value}))
      if (v.is_string()) names.push_back(v.get<std::string>());
    if (!names.empty()) return names;
  }
  return {};
}

// True when the second of four axes is a channel: the axes say so, or the dataset is virtual and they say nothing.
bool has_channel_axis(const Object& group, const Object& dataset) {
  for (const Object* object : {&dataset, &group})
    if (const auto axes = hdf5::read_attribute(*object, "axes"); axes && axes->is_array() && axes->size() == 4)
      return (*axes)[1] == "channel";
  hdf5::Id made(H5Dget_create_plist(dataset.id.get()), H5Pclose);
  return made && H5Pget_layout(made.get()) == H5D_VIRTUAL;
}

// Position on the channel axis: the caller's name (or number), else the default slice, else the first.
Result<std::uint64_t> choose_channel(const Container& c, const Object& group, const Object& dataset,
                                     const std::vector<std::string>& names) {
  const auto position = [&](const std::string& name) -> std::optional<std::uint64_t> {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) return static_cast<std::uint64_t>(found - names.begin());
    std::uint64_t n = 0;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), n);
    return fault == std::errc() && end == name.data() + name.size() && !name.empty() ? std::optional(n) : std::nullopt;
  };
  if (c.options.channel) {
    if (const auto at = position(*c.options.channel)) return *at;
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    return Error(Code::invalid_argument, dataset.where() + ": no channel '" + *c.options.channel + "'; channels are " +
                                             (known.empty() ? "not named: give its number" : known));
  }
  for (const Object* object : {&group, &dataset}) {
    const auto slice = hdf5::read_attribute(*object, "default_slice");
    if (slice && slice->is_array() && slice->size() == 4 && (*slice)[1].is_string())
      if (const auto at = position((*slice)[1].get<std::string>())) return *at;
  }
  return std::uint64_t{0};
}

// One member of /entry/data: its link, and the dataset that the link leads to.
ListedPart read_member(Container& c, const std::shared_ptr<const File>& file, const Object& group,
                       const hdf5::Link& link, const Result<Object>& dataset, ScanHints& hints) {
  ListedPart listed;
  listed.link = link.name;
  listed.link_number = part_number(link.name).value_or(0);
  const auto absent = [&](const Error& error) {
    listed.absent_reason = error.message;
    if (error.code != Code::missing_data && c.options.missing == Missing::error && !c.not_ready) c.not_ready = error;
    if (error.code == Code::unsupported && !c.not_ready) c.not_ready = error;
  };
  if (!dataset) {
    absent(dataset.error());
    return listed;
  }
  hdf5::PartRequest request;
  const auto shape = hdf5::dataset_shape(*dataset);
  if (shape && shape->size() == 4) {
    if (has_channel_axis(group, *dataset)) {
      auto channel = choose_channel(c, group, *dataset, channel_names(file));
      if (channel)
        request.channel = *channel;
      else if (!c.not_ready)
        c.not_ready = channel.take_error();
      if (!channel) request.channel = 0;
    } else if ((*shape)[0] <= 0xffffffffu && (*shape)[1] <= 0xffffffffu) {
      hints.array = Extent{static_cast<std::uint32_t>((*shape)[0]), static_cast<std::uint32_t>((*shape)[1])};
    }
  }
  note_scan_shape(c, hints, *dataset);
  auto parts = hdf5::make_parts(c, *dataset, request);
  if (!parts) {
    absent(parts.error());
    return listed;
  }
  listed.parts = *std::move(parts);
  listed.n_frames = 0;
  for (const Part& part : listed.parts) *listed.n_frames += part.n_frames;
  listed.image_nr_low = hdf5::as_count(hdf5::read_attribute(*dataset, "image_nr_low"));
  listed.image_nr_high = hdf5::as_count(hdf5::read_attribute(*dataset, "image_nr_high"));
  return listed;
}

// nimages * ntrigger, each 1 when absent; 0 when neither is there.
std::uint64_t announced_frames(Container& c, const std::shared_ptr<const File>& file) {
  const std::string at = "/entry/instrument/detector/detectorSpecific/";
  const auto images = hdf5::as_count(hdf5::read_value(file, at + "nimages"));
  const auto triggers = hdf5::as_count(hdf5::read_value(file, at + "ntrigger"));
  if (!images && !triggers) return 0;
  const auto product = checked_multiply(images.value_or(1), triggers.value_or(1));
  if (product && *product <= hdf5::kMostFrames) return *product;
  c.warnings.push_back(file->name() +
                       ": nimages and ntrigger announce an impossible number of frames; they are not believed");
  return 0;
}

// (rows, cols), or nothing when no detector has so many pixels: memory is taken for each of them.
std::optional<Extent> believable(std::uint64_t rows, std::uint64_t cols) {
  const auto pixels = checked_multiply(rows, cols);
  if (!pixels || *pixels == 0 || *pixels > kMaxFramePixels) return std::nullopt;
  return Extent{static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(cols)};
}

// Detector extent when no frame is there to tell.
Extent announced_detector(const std::shared_ptr<const File>& file) {
  const std::string at = "/entry/instrument/detector/";
  if (const auto size = hdf5::read_value(file, at + "module/data_size");
      size && size->is_array() && size->size() == 2) {
    const auto rows = hdf5::as_count((*size)[0]), cols = hdf5::as_count((*size)[1]);
    if (const auto det = rows && cols ? believable(*rows, *cols) : std::nullopt) return *det;
  }
  const auto cols = hdf5::as_count(hdf5::read_value(file, at + "detectorSpecific/x_pixels_in_detector"));
  const auto rows = hdf5::as_count(hdf5::read_value(file, at + "detectorSpecific/y_pixels_in_detector"));
  if (const auto det = rows && cols ? believable(*rows, *cols) : std::nullopt) return *det;
  if (auto mask = hdf5::find_object(file, at + "detectorSpecific/pixel_mask"); mask)
    if (const auto shape = hdf5::dataset_shape(*mask); shape && shape->size() == 2)
      if (const auto det = believable((*shape)[0], (*shape)[1])) return *det;
  return {};
}

}  // namespace

void note_scan_shape(Container& c, ScanHints& hints, const Object& object) {
  const auto value = hdf5::read_attribute(object, "scan_shape");
  if (!value || !value->is_array() || value->size() != 2) return;
  const auto rows = hdf5::as_count((*value)[0]), cols = hdf5::as_count((*value)[1]);
  if (!rows || !cols || *rows == 0 || *cols == 0 || *rows > 0xffffffffu || *cols > 0xffffffffu) return;
  const Extent found{static_cast<std::uint32_t>(*rows), static_cast<std::uint32_t>(*cols)};
  if (hints.attribute && *hints.attribute != found && !c.options.scan_shape && !c.not_ready)
    c.not_ready =
        Error(Code::corrupt_data, object.where() + ": scan_shape is " + to_string(found) + ", elsewhere in the file " +
                                      to_string(*hints.attribute) + "; give scan_shape");
  hints.attribute = found;
}

bool is_arina(const std::shared_ptr<const File>& file) {
  return !image_links(file).empty();
}

void inspect_arina(Container& c, const std::shared_ptr<const File>& file) {
  c.format = "arina";
  ScanHints hints;
  auto group = hdf5::find_object(file, "/entry/data");
  auto root = hdf5::find_object(file, "/");
  std::vector<ListedPart> listed;
  if (group && root) {
    note_scan_shape(c, hints, *root);
    note_scan_shape(c, hints, *group);
    const std::vector<hdf5::Link> links = image_links(file);
    std::vector<Result<Object>> datasets;
    std::vector<const Object*> found;
    for (const hdf5::Link& link : links) datasets.push_back(hdf5::find_object(file, "/entry/data/" + link.name));
    for (const Result<Object>& dataset : datasets)
      if (dataset) found.push_back(&*dataset);
    hdf5::read_ahead(found);
    for (std::size_t i = 0; i < links.size(); ++i)
      listed.push_back(read_member(c, file, *group, links[i], datasets[i], hints));
  }
  if (listed.size() > 1) hints.array.reset();  // several 4-D parts: their scan axes do not add up to one
  c.n_expected = announced_frames(c, file);
  place_parts(c, std::move(listed));
  if (c.n_expected == 0) c.n_expected = end_of_parts(c);
  hdf5::agree(c);
  if (c.n_stored == 0 && c.shape.det.count() == 0) c.shape.det = announced_detector(file);
  read_master_metadata(c, file);
  const SideFile side = read_side_files(c);
  hints.side_file = side.scan;
  hints.side_file_name = side.name;
  resolve_scan_shape(c, hints);
}

}  // namespace quantem
