// SPDX-License-Identifier: MIT
//
// What is kept so that it is found out once: which products are one entry of the table of
// algorithms and which are two, the table itself, and the files that other processes read, at and
// beside each of their borders.
#include "fakeblas.h"
#include "fakecuda.h"
#include "test_sim_tap.h"

#include "gpu/blas/blas.cuh"
#include "gpu/blas/tuned.cuh"
#include "gpu/cache.cuh"
#include "gpu/kernels.cuh"

#include <cstdarg>
#include <cstring>
#include <functional>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static rg_device_modes modes;

static rg_status fail(rg_status code, const char *, ...)
{
  return code;
}

// -- Files, as ridge writes them for the plugin ------------------------------------------------

static int writes, fails_at = -1, released;

static rg_status output_new(const char *path, rg_output **out)
{
  FILE *file = fopen(path, "w");
  *out = reinterpret_cast<rg_output *>(file);
  return file ? RG_OK : RG_EIO;
}

static rg_status output_write(rg_output *output, const void *bytes, int64_t n)
{
  if (writes++ == fails_at) return RG_EIO;
  fwrite(bytes, 1, static_cast<size_t>(n), reinterpret_cast<FILE *>(output));
  return RG_OK;
}

static rg_status output_finish(rg_output *output)
{
  return fclose(reinterpret_cast<FILE *>(output)) == 0 ? RG_OK : RG_EIO;
}

static void output_release(rg_output *output)
{
  released++;
  if (output) fclose(reinterpret_cast<FILE *>(output));
}

static const rg_device_modes *modes_now(void)
{
  return &modes;
}

extern "C" rg_gpu_entry rg_gpu_plugin;

static void open_plugin(void)
{
  static const rg_gpu_host host = { RG_GPU_ABI,    RG_ABI,        RG_OP_COUNT, 0,
                                    fail,          modes_now,     output_new,  output_write,
                                    output_finish, output_release };
  rg_gpu_offer offer;
  modes.vendor = modes.autotune = 1;
  ok(rg_gpu_plugin(&host, &offer) == RG_OK, "the plugin opens");
}

static std::string folder;

static std::string path_of(const std::string &name)
{
  return folder + "/ridge/" + name;
}

static std::string content(const std::string &name)
{
  FILE *file = fopen(path_of(name).c_str(), "r");
  std::string text;
  int c;
  while (file && (c = fgetc(file)) != EOF)
    text += static_cast<char>(c);
  if (file) fclose(file);
  return file ? text : "none";
}

static void put(const std::string &name, const std::string &text)
{
  FILE *file = fopen(path_of(name).c_str(), "w");
  fwrite(text.data(), 1, text.size(), file);
  fclose(file);
}

static size_t lines_in(const std::string &text)
{
  size_t n = 0;
  for (char c : text)
    n += c == '\n';
  return n;
}

// -- Which products are one --------------------------------------------------------------------

// How often the heuristic is asked by a product that is run twice: 1 of a new one, 0 of a known
// one.
static size_t asked(const rg_gemm &g)
{
  size_t before = rgsim_blas_counted(RGSIM_BLAS_HEURISTICS);
  bool taken = false;
  bool good = rg_blas_run(1, "test", &g, &taken) == RG_OK && taken;
  size_t first = rgsim_blas_counted(RGSIM_BLAS_HEURISTICS) - before;
  good = rg_blas_run(1, "test", &g, &taken) == RG_OK && taken && good;
  if (rgsim_blas_counted(RGSIM_BLAS_HEURISTICS) - before != first) return 99; // forgotten
  return good ? first : 98;
}

typedef std::function<void(rg_gemm *)> change;

static void differs(const rg_gemm &base, const char *what, const change &f)
{
  rg_gemm g = base;
  f(&g);
  ok(asked(g) == 1 && asked(base) == 0, std::string("another product: ") + what);
}

static void is_same(const rg_gemm &base, const char *what, const change &f)
{
  rg_gemm g = base;
  f(&g);
  ok(asked(g) == 0, std::string("the same product: ") + what);
}

// 8 x 16 times 16 x 12, three times; every number of it is another one, and has room to grow.
static rg_gemm product(float *a, float *b, float *c)
{
  rg_gemm g = {};
  g.m = 8;
  g.n = 12;
  g.k = 16;
  g.count = 3;
  g.a = { a, 24, 400, false };
  g.b = { b, 28, 600, false };
  g.c = { c, 32, 500, false };
  g.factor = g.result = RG_F32;
  g.scale = 1;
  return g;
}

static void test_products(void)
{
  static const std::vector<float> zeros(4096);
  Array<float> a(zeros), b(zeros), c(zeros);
  const rg_gemm base = product(a.p, b.p, c.p);
  ok(asked(base) == 1 && asked(base) == 0, "a product is found once");
  differs(base, "rows", [](rg_gemm *g) { g->m = 7; });
  differs(base, "columns", [](rg_gemm *g) { g->n = 11; });
  differs(base, "the inner size", [](rg_gemm *g) { g->k = 14; });
  differs(base, "how many", [](rg_gemm *g) { g->count = 2; });
  differs(base, "what is between the rows of a", [](rg_gemm *g) { g->a.ld = 25; });
  differs(base, "what is between the rows of b", [](rg_gemm *g) { g->b.ld = 29; });
  differs(base, "what is between the rows of c", [](rg_gemm *g) { g->c.ld = 33; });
  differs(base, "what is between the a", [](rg_gemm *g) { g->a.step = 404; });
  differs(base, "what is between the b", [](rg_gemm *g) { g->b.step = 604; });
  differs(base, "what is between the c", [](rg_gemm *g) { g->c.step = 504; });
  differs(base, "a transposed", [](rg_gemm *g) { g->a.transposed = true; });
  differs(base, "b transposed", [](rg_gemm *g) { g->b.transposed = true; });
  differs(base, "relu", [](rg_gemm *g) { g->relu = true; });
  for (int64_t side = 0; side < 3; side++) {
    const auto at = [side](rg_gemm *g) { return side == 0 ? &g->a : side == 1 ? &g->b : &g->c; };
    const std::string name = std::string(" of ") + "abc"[side];
    differs(base, ("an address" + name + " that is a multiple of 4 alone").c_str(),
            [at](rg_gemm *g) { at(g)->data = (float *)at(g)->data + 1; });
    differs(base, ("an address" + name + " that is a multiple of 8 alone").c_str(),
            [at](rg_gemm *g) { at(g)->data = (float *)at(g)->data + 2; });
    is_same(base, ("an address" + name + " 16 bytes on").c_str(),
            [at](rg_gemm *g) { at(g)->data = (float *)at(g)->data + 4; });
  }
  is_same(base, "another scale", [](rg_gemm *g) { g->scale = 3; });

  rg_gemm one = base;
  one.count = 1;
  ok(asked(one) == 1, "one of them is another product");
  is_same(one, "steps to others that there are not", [](rg_gemm *g) {
    g->a.step = 1;
    g->b.step = 2;
    g->c.step = 3;
  });
  differs(one, "a bias", [&](rg_gemm *g) { g->bias = a.p; });
  rg_gemm with = one;
  with.bias = a.p;
  differs(with, "a bias and relu", [](rg_gemm *g) { g->relu = true; });
  differs(one, "bf16", [](rg_gemm *g) { g->factor = g->result = RG_BF16; });
  differs(one, "f16", [](rg_gemm *g) { g->factor = g->result = RG_F16; });
  differs(one, "f64", [](rg_gemm *g) { g->factor = g->result = RG_F64; });
  differs(one, "bf16 with sums in f32", [](rg_gemm *g) { g->factor = RG_BF16; });
  differs(one, "f16 with sums in f32", [](rg_gemm *g) { g->factor = RG_F16; });

  struct {
    int32_t *mode;
    const char *what;
    int32_t value;
    bool is_other;
  } const cases[] = { { &modes.tf32, "with TF32", 1, true },
                      { &modes.autotune, "timed all the more", 2, false },
                      { &modes.autotune, "not timed", 0, true },
                      { &modes.deterministic, "with the same bits", 1, true } };
  for (const auto &m : cases) {
    const int32_t before = *m.mode;
    *m.mode = m.value;
    ok(asked(one) == (m.is_other ? 1 : 0), std::string("a product ") + m.what);
    *m.mode = before;
    ok(asked(one) == 0, std::string("and again without: ") + m.what);
  }
}

static void test_bytes(void)
{
  static const std::vector<float> ones(4096, 1.0f);
  Array<float> a(ones), b(ones), c(ones);
  rg_gemm g = product(a.p, b.p, c.p);
  g.m = g.n = g.k = 16;
  g.count = 1;
  g.a.ld = g.b.ld = 16;
  g.b.transposed = true;
  g.factor = g.other = RG_F8E4M3;
  ok(asked(g) == 1, "a product of 8-bit floats is found once");
  differs(g, "b of another type", [](rg_gemm *w) { w->other = RG_F8E5M2; });
  differs(g, "a of another type", [](rg_gemm *w) { w->factor = RG_F8E5M2; });
  differs(g, "a result in bf16", [](rg_gemm *w) { w->result = RG_BF16; });
  differs(g, "a scale of a", [&](rg_gemm *w) { w->a_scale = a.p; });
  differs(g, "a scale of b", [&](rg_gemm *w) { w->b_scale = a.p; });
  rg_gemm both = g;
  both.a_scale = both.b_scale = a.p;
  differs(g, "scales of both", [&](rg_gemm *w) { *w = both; });
  differs(both, "scales of the rows", [](rg_gemm *w) { w->by_row = true; });
  is_same(both, "scales that lie elsewhere", [&](rg_gemm *w) { w->b_scale = c.p; });
}

// -- The table ---------------------------------------------------------------------------------

static rg_tuned_key numbered(int64_t n)
{
  rg_tuned_key key = {};
  key.field[RG_TUNED_M] = -1 - n;
  return key;
}

static bool is_known(int64_t n, int32_t state)
{
  const rg_tuned_key key = numbered(n);
  cublasLtMatmulAlgo_t algo = {};
  return rg_tuned_find(&key, &algo) == state &&
         (state == RG_TUNED_ABSENT || algo.data[3] == static_cast<uint64_t>(n));
}

static void keep(int64_t n, int32_t state)
{
  const rg_tuned_key key = numbered(n);
  cublasLtMatmulAlgo_t algo = {};
  algo.data[3] = static_cast<uint64_t>(n);
  rg_tuned_keep(&key, state, &algo);
}

static void test_table(void)
{
  enum { MANY = 5000 };
  int64_t known = 0;
  bool absent = true;
  for (int64_t n = 0; n < MANY; n++) {
    absent = absent && is_known(n, RG_TUNED_ABSENT);
    keep(n, RG_TUNED_FIRST);
  }
  for (int64_t n = 0; n < MANY; n++)
    known += is_known(n, RG_TUNED_FIRST);
  ok(absent && known == MANY && is_known(MANY, RG_TUNED_ABSENT),
     "5000 products are kept apart, however the table grew");
  keep(7, RG_TUNED_CHECKED);
  ok(is_known(7, RG_TUNED_CHECKED) && is_known(8, RG_TUNED_FIRST),
     "what is known of one is replaced");
  const rg_tuned_key key = numbered(9);
  cublasLtMatmulAlgo_t algo;
  memset(&algo, 1, sizeof algo);
  rg_tuned_keep(&key, RG_TUNED_NONE, NULL);
  ok(rg_tuned_find(&key, &algo) == RG_TUNED_NONE && algo.data[3] == 0 && algo.data[0] == 0,
     "that no algorithm takes it, too");
}

enum { WORDS = RG_TUNED_FIELDS + 8 + 1 }; // of a line of the file

static std::string line_of(int64_t n, uint64_t wrong = 0)
{
  uint64_t word[WORDS] = {};
  const rg_tuned_key key = numbered(n);
  std::string text;
  memcpy(word, key.field, sizeof key.field);
  word[RG_TUNED_FIELDS + 3] = static_cast<uint64_t>(n);
  word[WORDS - 1] = rg_hash(word, 8 * (WORDS - 1), RG_HASH_BEGIN) ^ wrong;
  for (uint64_t w : word) {
    char digits[18];
    snprintf(digits, sizeof digits, "%016llx ", static_cast<unsigned long long>(w));
    text += digits;
  }
  text.back() = '\n';
  return text;
}

// Is each line behind the head one that line_of gives?
static bool right_lines(const std::string &text)
{
  for (size_t at = 28; at < text.size(); at += 17 * WORDS) {
    unsigned long long m = 0;
    if (sscanf(text.c_str() + at + 17 * RG_TUNED_M, "%16llx", &m) != 1) return false;
    const int64_t field = static_cast<int64_t>(m);
    // those of the products before these have sizes of their own
    if (field < 0 && text.compare(at, 17 * WORDS, line_of(-1 - field)) != 0) return false;
    if (text[at + 17 * WORDS - 1] != '\n') return false;
  }
  return true;
}

// The file is written when 32 were timed, and again after the next 32.
static void test_saves(void)
{
  const size_t before = lines_in(content("cublaslt.txt"));
  int64_t n = 20000;
  unlink(path_of("cublaslt.txt").c_str());
  for (int times = 0; content("cublaslt.txt") == "none" && times < 40; times++)
    keep(n++, RG_TUNED_BEST);
  ok(content("cublaslt.txt") != "none" && n <= 20032, "what 32 calls timed is written at once");
  const std::string first = content("cublaslt.txt");
  for (int i = 0; i < 31; i++)
    keep(n++, RG_TUNED_BEST);
  ok(content("cublaslt.txt") == first, "not what the next 31 did");
  keep(n++, RG_TUNED_FIRST);
  ok(content("cublaslt.txt") == first, "nor what was not timed");
  keep(n++, RG_TUNED_BEST);
  const std::string second = content("cublaslt.txt");
  ok(lines_in(second) == lines_in(first) + 32, "but with the 32nd");
  ok(second.compare(0, 28, "ridge cublasLt algorithms 1\n") == 0 && lines_in(second) > before,
     "behind its head");
  ok(right_lines(second), "each line is a key, an algorithm and their checksum");
}

// What other processes wrote is read when the file is written again, and stays in it; a line that
// is not exactly one is left out.
static void test_loads(void)
{
  const std::string head = "ridge cublasLt algorithms 1\n", kept = line_of(30000);
  std::string capital = line_of(0xabcdef), letter = line_of(30003), blank = line_of(30004);
  for (char &c : capital)
    c = static_cast<char>(toupper(c));
  letter[20] = 'g';
  blank[16] = '_';
  const std::string text = head + line_of(30001, 1) + kept + letter + "\n" + capital + blank +
                           line_of(30005).substr(1) + "0" + line_of(30006) + line_of(30007) +
                           line_of(30008).substr(0, 40);
  int64_t n = 40000;
  put("cublaslt.txt", text);
  for (int times = 0; content("cublaslt.txt") == text && times < 40; times++)
    keep(n++, RG_TUNED_BEST);
  ok(is_known(30000, RG_TUNED_LOADED) && is_known(30007, RG_TUNED_LOADED),
     "lines of other processes are read before the file is written");
  ok(is_known(40000, RG_TUNED_BEST), "and what is known already stays");
  bool absent = is_known(0xabcdef, RG_TUNED_ABSENT);
  for (int64_t wrong : { 30001, 30003, 30004, 30005, 30006, 30008 })
    absent = absent && is_known(wrong, RG_TUNED_ABSENT);
  ok(absent, "lines with another checksum, digit, blank or length are not");
  const std::string now = content("cublaslt.txt");
  ok(right_lines(now) && now.find(kept) != std::string::npos &&
         now.find(line_of(30007)) != std::string::npos,
     "and they stay in it");
  put("cublaslt.txt", "ridge cublasLt algorithms 2\n" + line_of(50000));
  for (int i = 0; i < 32; i++)
    keep(n++, RG_TUNED_BEST);
  ok(is_known(50000, RG_TUNED_ABSENT), "lines behind another head are none");
}

// -- Files -------------------------------------------------------------------------------------

static bool reads(const char *name, size_t most, const std::string &wanted)
{
  size_t bytes = 12345;
  char *all = rg_cache_read(name, most, &bytes);
  const bool same =
      all ? bytes == wanted.size() && all[bytes] == '\0' && memcmp(all, wanted.data(), bytes) == 0
          : wanted == "none";
  free(all);
  return same;
}

static void test_reading(void)
{
  put("a.txt", "0123456789");
  ok(reads("a.txt", 10, "0123456789") && reads("a.txt", 11, "0123456789") &&
         reads("a.txt", 9, "none"),
     "a file is read up to the size that was told, and not beyond");
  put("a.txt", "");
  ok(reads("a.txt", 10, "") && reads("a.txt", 0, ""), "an empty one is read as that");
  ok(reads("none.txt", 10, "none"), "one that is not there is not");
  mkdir(path_of("folder").c_str(), 0700);
  mkfifo(path_of("fifo").c_str(), 0600);
  ok(reads("folder", 1 << 20, "none") && reads("fifo", 1 << 20, "none"), "nor a folder or a FIFO");
  const std::string most(32, 'n'), more(33, 'n');
  put(most, "x");
  put(more, "x");
  ok(reads(most.c_str(), 10, "x") && reads(more.c_str(), 10, "none"),
     "a name has 32 bytes at most");
  const int before = dup(0), kept = dup(0);
  close(before);
  close(0); // as where a program was started without standard input
  ok(reads(most.c_str(), 10, "x") && dup(kept) == 0, "a file is closed, whatever its number is");
  ok(rg_cache_append("l.txt", "one\n", 100) && rg_cache_append("l.txt", "two\n", 100) &&
         reads("l.txt", 100, "one\ntwo\n") && dup(kept) == before,
     "those that are written, too");
  close(before);
  close(kept);

  const char text[] = "one\n\nthree\nfour";
  const char *at = text, *line;
  size_t n = 0;
  std::string found;
  while ((line = rg_cache_line(&at, text + strlen(text), &n)))
    found += '[' + std::string(line, n) + ']';
  ok(found == "[one][][three]" && at == text + 11, "lines end; what does not is none");
}

static void test_writing(void)
{
  const rg_cache_piece two[] = { { "first ", 6 }, { "second", 6 } };
  const rg_cache_piece pieces[] = { two[0], two[1] };
  released = 0;
  ok(rg_cache_write("w.txt", pieces, 2) && content("w.txt") == "first second",
     "pieces are written");
  ok(rg_cache_write("w.txt", pieces, 1) && content("w.txt") == "first " && released == 0,
     "and written over");
  ok(!rg_cache_write("fifo", pieces, 2) && !rg_cache_write("folder", pieces, 2) &&
         !rg_cache_write(std::string(33, 'n').c_str(), pieces, 2),
     "not into a FIFO, a folder, or a name of 33 bytes");
  writes = 0;
  fails_at = 1;
  ok(!rg_cache_write("w.txt", pieces, 2) && released == 1 && writes == 2,
     "a write that fails is the last, and gives back what was begun");
  fails_at = -1;
}

static void test_appending(void)
{
  unlink(path_of("l.txt").c_str());
  ok(rg_cache_append("l.txt", "one\n", 100) && rg_cache_append("l.txt", "two\n", 100) &&
         content("l.txt") == "one\ntwo\n",
     "lines are added");
  ok(rg_cache_append("l.txt", "abc\n", 12) && content("l.txt") == "one\ntwo\nabc\n",
     "up to the size that was told");
  ok(rg_cache_append("l.txt", "def\n", 15) && content("l.txt") == "def\n",
     "where there would be a byte more it starts again");
  put("l.txt", "torn");
  ok(rg_cache_append("l.txt", "abc\n", 100) && content("l.txt") == "torn\nabc\n",
     "a line is not added to the half of another one");
  put("l.txt", "");
  ok(rg_cache_append("l.txt", "abc\n", 100) && content("l.txt") == "abc\n",
     "nothing is no half line");
  put("l.txt", "\n");
  ok(rg_cache_append("l.txt", "abc\n", 100) && content("l.txt") == "\nabc\n",
     "an empty line neither");
  const std::string most(254, 'x'), more(255, 'x');
  put("l.txt", "y");
  ok(rg_cache_append("l.txt", most.c_str(), 1000) && content("l.txt") == "y\n" + most,
     "a line of 254 bytes is added");
  ok(!rg_cache_append("l.txt", more.c_str(), 1000) && content("l.txt") == "y\n" + most,
     "one of 255 is not");
  ok(!rg_cache_append("fifo", "abc\n", 100) && !rg_cache_append("folder", "abc\n", 100),
     "nor one to a FIFO or a folder");
}

// What tells cards apart in what is kept: FNV-1a over the name, 90 (the capability 9.0) and 4
// multiprocessors, worked out apart from it.
static void test_cards(void)
{
  setenv("RG_SIM_DEVICES", "2", 1);
  ok(rg_gpu_identity(1) == 0x3b42726ebe9b7f9f && rg_gpu_identity(2) == 0x3407f76ebaeb48a8,
     "each card is told by its own name");
  ok(rg_gpu_identity(3) == 0 && cudaGetLastError() == cudaSuccess,
     "one that is not there is none, and leaves no error");
  setenv("RG_SIM_CAPABILITY", "80", 1);
  ok(rg_gpu_identity(1) == 0x3b20766ebe7ea005, "and by its capability");
  unsetenv("RG_SIM_CAPABILITY");
  unsetenv("RG_SIM_DEVICES");
}

// Folders are made where something is written, for their user alone; nothing is made for reading.
static void test_folders(void)
{
  const std::string before = folder;
  std::string at_home;
  struct stat facts;
  folder += "/new";
  setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  ok(reads("a.txt", 10, "none") && stat(folder.c_str(), &facts) != 0, "reading makes no folder");
  ok(rg_cache_append("a.txt", "x\n", 10) && content("a.txt") == "x\n", "writing makes it");
  ok(stat(folder.c_str(), &facts) == 0 && (facts.st_mode & 0777) == 0700 &&
         stat((folder + "/ridge").c_str(), &facts) == 0 && (facts.st_mode & 0777) == 0700,
     "for its user alone");
  for (const char *where : { "", "relative", "." }) { // not a place that all programs agree on
    setenv("XDG_CACHE_HOME", where, 1);
    ok(!rg_cache_append("a.txt", "x\n", 10) && reads("a.txt", 10, "none"),
       std::string("no folder: '") + where + "'");
    setenv("RG_SIM_HOME", where, 1);
    ok(!rg_cache_append("a.txt", "x\n", 10), std::string("nor such a home: '") + where + "'");
    setenv("RG_SIM_HOME", folder.c_str(), 1);
    const std::string line = std::string(where) + "\n";
    at_home += line;
    ok(rg_cache_append("a.txt", line.c_str(), 100) && reads("a.txt", 100, at_home),
       "but one below the home");
    unsetenv("RG_SIM_HOME");
  }
  folder = before;
  setenv("XDG_CACHE_HOME", folder.c_str(), 1);
}

int main(void)
{
  char name[] = "/tmp/ridge_test_kept_XXXXXX";
  folder = mkdtemp(name);
  setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  unsetenv("RG_SIM_HOME");
  mkdir(path_of("").c_str(), 0700);
  umask(022);
  open_plugin();
  test_products();
  test_bytes();
  test_table();
  test_saves();
  test_loads();
  test_reading();
  test_writing();
  test_appending();
  test_folders();
  test_cards();
  ok(rgsim_blas_counted(RGSIM_BLAS_MISUSES) == 0, "cublasLt is used as it is meant to be");
  // what is kept at the end of the process has nowhere to go
  setenv("XDG_CACHE_HOME", "", 1);
  ok(system(("rm -rf " + folder).c_str()) == 0, "and its folder is taken away");
  printf("1..%d\n", tests);
  return failures ? 1 : 0;
}
