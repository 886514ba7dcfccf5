// Files of this area: .npy both ways, outputs that appear whole or not at all.

#include <gtest/gtest.h>

#include "quantem/cli/npy.h"
#include "quantem/cli/output_set.h"
#include "quantem/cli/testing.h"

namespace quantem::cli {
namespace {

TEST(CliNpy, WritesWhatItReads) {
  const TemporaryFolder folder;
  const std::vector<float> values = {1.5F, -2, 3, 4, 5, 6};
  const std::vector<std::uint64_t> shape = {2, 3};
  const std::string bytes = npy_of(values, shape);
  EXPECT_EQ(bytes.find('\n') % 64, 63u);  // the data begin at a multiple of 64
  write_file(folder / "a.npy", bytes);
  const auto array = read_npy(folder / "a.npy");
  ASSERT_TRUE(array);
  EXPECT_EQ(array->shape, shape);
  EXPECT_EQ(array->values, (std::vector<double>{1.5, -2, 3, 4, 5, 6}));
}

std::string npy_text(const std::string& header, const std::string& values) {
  const std::string padded = header + "\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(padded.size()) + '\0' + padded + values;
}

TEST(CliNpy, ReadsBoolBigEndianAndFortranOrder) {
  const TemporaryFolder folder;
  write_file(folder / "b.npy",
             npy_text("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", std::string("\1\0\1", 3)));
  EXPECT_EQ(read_npy(folder / "b.npy")->values, (std::vector<double>{1, 0, 1}));
  write_file(folder / "e.npy",
             npy_text("{'descr': '>u2', 'fortran_order': False, 'shape': (1,), }", std::string("\1\2", 2)));
  EXPECT_EQ(read_npy(folder / "e.npy")->values, (std::vector<double>{258}));
  write_file(folder / "f.npy", npy_text("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "\1\2\3\4\5\6"));
  EXPECT_EQ(read_npy(folder / "f.npy")->values, (std::vector<double>{1, 3, 5, 2, 4, 6}));
}

TEST(CliNpy, RefusesWhatIsNotOne) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_npy(folder / "absent.npy").error().code, Code::io);
  const std::pair<const char*, std::pair<std::string, Code>> cases[] = {
      {"text", {"hello, world", Code::corrupt_data}},
      {"empty", {"", Code::corrupt_data}},
      {"short", {npy_text("{'descr': '<u2', 'fortran_order': False, 'shape': (4,), }", "abc"), Code::corrupt_data}},
      {"complex",
       {npy_text("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "12345678"), Code::unsupported}},
      {"huge",
       {npy_text("{'descr': '<u2', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", ""),
        Code::out_of_memory}}};
  for (const auto& [name, expected] : cases) {
    write_file(folder / name, expected.first);
    const auto read = read_npy(folder / name);
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().code, expected.second) << name << read.error().message;
    EXPECT_TRUE(holds(read.error().message, name)) << read.error().message;
  }
}

TEST(CliOutput, C91_WholeOrNotAtAllAndNeverInPlaceOfAnother) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_whole(folder / "a", "first", false));
  const auto again = write_whole(folder / "a", "second", false);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::invalid_argument);
  EXPECT_TRUE(holds(again.error().message, "--overwrite"));
  EXPECT_EQ(file_bytes(folder / "a"), "first");
  ASSERT_TRUE(write_whole(folder / "a", "third", true));
  EXPECT_EQ(file_bytes(folder / "a"), "third");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});  // no temporary stays
  const auto nowhere = write_whole(folder / "no/such/folder", "x", false);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, Code::io);
}

TEST(CliOutput, SetLooksBeforeItWrites) {
  const TemporaryFolder folder;
  write_file(folder / "out.json", "kept");
  EXPECT_FALSE(OutputSet(folder.string(), false).check({"new.json", "out.json"}));
  EXPECT_TRUE(OutputSet(folder.string(), true).check({"out.json"}));
  EXPECT_FALSE(OutputSet(folder / "out.json", true).check({}));  // a file is no folder
  OutputSet set(folder / "deep/er", false);
  set.add("a", "1");
  set.add("b", "2");
  ASSERT_TRUE(set.commit());
  EXPECT_EQ(file_bytes(folder / "deep/er/b"), "2");
}

}  // namespace
}  // namespace quantem::cli
