// SPDX-License-Identifier: MIT
//
// The simulator's own tests, in every order: right kernels are right, and each planted mistake is
// found. Speaks TAP.
#include "fakecuda.h"
#include "gpu/svd_pairs.cuh"
#include "test_sim_tap.h"

#include <sys/wait.h>
#include <unistd.h>

// -- Kernels -----------------------------------------------------------------------------

static double block_sum_error(bool barrier)
{
  enum { BLOCKS = 5, SIZE = 256 };
  std::vector<float> x = numbers(BLOCKS * SIZE);
  std::vector<double> expected(BLOCKS, 0.0);
  for (size_t i = 0; i < x.size(); i++)
    expected[i / SIZE] += static_cast<double>(x[i]);
  Array<float> dx(x), dy(BLOCKS);
  test_block_sum(dy.p, dx.p, BLOCKS, barrier, nullptr);
  return distance(dy.host(), expected);
}

double softmax_error(bool barrier)
{
  enum { ROWS = 7, COLS = 300 };
  std::vector<float> x = numbers(ROWS * COLS);
  std::vector<double> expected(x.size());
  for (size_t row = 0; row < ROWS; row++) {
    double sum = 0;
    for (size_t c = 0; c < COLS; c++)
      sum += std::exp(static_cast<double>(x[row * COLS + c]));
    for (size_t c = 0; c < COLS; c++) {
      expected[row * COLS + c] = std::exp(static_cast<double>(x[row * COLS + c])) / sum;
    }
  }
  Array<float> dx(x), dy(ROWS * COLS);
  test_softmax(dy.p, dx.p, ROWS, COLS, barrier, nullptr);
  return distance(dy.host(), expected);
}

double add_error(cudaStream_t s)
{
  enum { N = 1000 };
  std::vector<float> x = numbers(N);
  std::vector<double> expected(x.begin(), x.end());
  for (double &e : expected)
    e *= 2;
  Array<float> dx(x), dy(N);
  test_add(dy.p, dx.p, dx.p, N, s);
  cudaStreamSynchronize(s);
  return distance(dy.host(), expected);
}

static bool warp_sum_right(void)
{
  enum { WARPS = 9 };
  std::vector<float> x = numbers(WARPS * 32);
  std::vector<double> sums(WARPS, 0.0), maxima(WARPS, -2.0);
  for (size_t i = 0; i < x.size(); i++) {
    sums[i / 32] += static_cast<double>(x[i]);
    maxima[i / 32] = std::fmax(maxima[i / 32], static_cast<double>(x[i]));
  }
  Array<float> dx(x), dsums(WARPS), dmaxima(WARPS);
  test_warp_sum(dsums.p, dmaxima.p, dx.p, WARPS, nullptr);
  return distance(dsums.host(), sums) < 1e-5 && distance(dmaxima.host(), maxima) == 0;
}

static bool votes_right(void)
{
  Array<votes> v(64);
  test_votes(v.p, nullptr);
  std::vector<votes> got = v.host();
  for (int t = 0; t < 64; t++) {
    int lane = t % 32, warp = t / 32;
    const votes &g = got[static_cast<size_t>(t)];
    bool good = g.ballot == 0x49249249u && g.match == 0xffu << lane / 8 * 8 && g.add == 496 &&
                g.any == (warp == 0) && g.all == (warp == 0) && g.max == -32 * warp &&
                g.count == 16 && g.block_or == 1 && g.block_and == 0 &&
                g.up == (lane < 3 ? t : t - 3) && g.down == (lane % 16 > 12 ? t : t + 3) &&
                g.broadcast == t / 8 * 8 + 7;
    if (!good) return false;
  }
  return true;
}

static bool halves_right(void)
{
  Array<unsigned> y(32);
  test_halves(y.p, nullptr);
  std::vector<unsigned> got = y.host();
  for (size_t t = 0; t < 32; t++) {
    if (got[t] != (t < 16 ? 120u : 0xaaaa0000u)) return false;
  }
  return true;
}

static bool histogram_right(void)
{
  enum { N = 1000, BINS = 7 };
  std::vector<int> x(N);
  for (int i = 0; i < N; i++)
    x[static_cast<size_t>(i)] = i % BINS;
  Array<int> dx(x), bins(std::vector<int>(BINS, 0));
  Array<float> sum(std::vector<float>(1, 0.0f));
  test_histogram(bins.p, sum.p, dx.p, N, nullptr);
  std::vector<int> got = bins.host();
  for (int i = 0; i < BINS; i++) {
    if (got[static_cast<size_t>(i)] != (N - i + BINS - 1) / BINS) return false;
  }
  return sum.host()[0] == N * 0.5f;
}

static bool indices_right(void)
{
  dim3 grid(3, 4, 2), block(5, 3, 4);
  Array<int> y(24 * 60);
  test_indices(y.p, grid, block, nullptr);
  std::vector<int> got = y.host();
  for (int i = 0; i < y.n; i++) {
    if (got[static_cast<size_t>(i)] != i) return false;
  }
  return true;
}

static bool reverse_right(int n)
{
  std::vector<float> x = numbers(n);
  Array<float> dx(x), dy(n);
  if (test_reverse(dy.p, dx.p, n, dx.bytes(), nullptr)) return false;
  std::vector<float> got = dy.host();
  for (size_t i = 0; i < x.size(); i++) {
    if (got[i] != x[x.size() - 1 - i]) return false;
  }
  return true;
}

static void test_kernels(const std::string &in)
{
  ok(add_error(nullptr) == 0, "a sum of vectors" + in);
  ok(block_sum_error(true) < 1e-5, "a sum over a block, through shared memory" + in);
  ok(warp_sum_right(), "sums and maxima over warps, through shuffles" + in);
  ok(softmax_error(true) < 1e-6, "a row of softmax for each block" + in);
  ok(votes_right(), "votes, matches, reductions and the other barriers" + in);
  ok(halves_right(), "two halves of a warp apart" + in);
  ok(histogram_right(), "atomic additions" + in);
  ok(indices_right(), "three dimensions" + in);
  ok(reverse_right(100), "dynamic shared memory" + in);
}

[[maybe_unused]] static void test_missing_barrier(void)
{
  int sum = 0, softmax = 0;
  for (const char *order : ORDERS) {
    set_order(order);
    sum += block_sum_error(false) > 1e-3;
    softmax += softmax_error(false) > 1e-3;
  }
  ok(sum > 0, "a sum without its barriers is wrong in some order");
  ok(softmax > 0, "softmax without its barrier is wrong in some order");
}

static void test_configurations(void)
{
  set_order("fwd");
  dim3 one(1);
  gives(test_nothing(one, dim3(1025), 0, nullptr), cudaErrorInvalidConfiguration, "1025 threads");
  gives(test_nothing(one, dim3(1, 1, 65), 0, nullptr), cudaErrorInvalidConfiguration, "65 deep");
  gives(test_nothing(one, dim3(0), 0, nullptr), cudaErrorInvalidConfiguration, "no threads");
  gives(test_nothing(dim3(0), one, 0, nullptr), cudaErrorInvalidConfiguration, "no blocks");
  gives(test_nothing(dim3(1, 65536), one, 0, nullptr), cudaErrorInvalidConfiguration, "65536 high");
  gives(cudaGetLastError(), cudaErrorInvalidConfiguration, "the launch's error is the last one");
  gives(cudaGetLastError(), cudaSuccess, "and forgotten when it is read");
  const size_t much = 100 << 10;
  Array<float> x(32), y(32);
  gives(test_reverse(y.p, x.p, 32, much, nullptr), cudaErrorInvalidValue, "100 KiB not allowed");
  gives(test_allow_reverse(much), cudaSuccess, "100 KiB can be allowed");
  gives(test_reverse(y.p, x.p, 32, much, nullptr), cudaSuccess, "and are given then");
  gives(test_allow_reverse(228 << 10), cudaErrorInvalidValue, "228 KiB cannot");
  cudaGetLastError();
}

// -- Memory ---------------------------------------------------------------------------------

static void test_memory(void)
{
  std::vector<float> h(100, 1.0f);
  float *p = nullptr, *q = nullptr;
  size_t before = rgsim_live_allocations();
  gives(cudaMalloc(reinterpret_cast<void **>(&p), 400), cudaSuccess, "cudaMalloc");
  ok(rgsim_live_allocations() == before + 1, "an allocation is counted");
  cudaMemcpy(h.data(), p, 400, cudaMemcpyDeviceToHost);
  ok(std::isnan(h[0]) && std::isnan(h[99]), "new memory is NaN");
  gives(cudaMemcpy(p, h.data(), 404, cudaMemcpyHostToDevice), cudaErrorInvalidValue,
        "a copy past the end of its target");
  gives(cudaMemcpy(h.data(), p + 1, 400, cudaMemcpyDeviceToHost), cudaErrorInvalidValue,
        "a copy past the end of its source");
  gives(cudaMemcpy(h.data(), p, 400, cudaMemcpyHostToDevice), cudaErrorInvalidValue,
        "a copy in the wrong direction");
  gives(cudaMemcpy(p + 50, p, 200, cudaMemcpyDeviceToDevice), cudaSuccess, "a copy that fits");
  gives(cudaMemsetAsync(p + 1, 0, 400, nullptr), cudaErrorInvalidValue, "a memset past the end");
  gives(cudaFree(p + 1), cudaErrorInvalidValue, "freeing the inside of an allocation");
  gives(cudaFree(h.data()), cudaErrorInvalidValue, "freeing memory of the host");
  gives(cudaFree(p), cudaSuccess, "cudaFree");
  gives(cudaFree(p), cudaErrorInvalidValue, "freeing twice");
  ok(rgsim_live_allocations() == before, "nothing is left");

  setenv("RG_SIM_OOM_AFTER", "1", 1);
  gives(cudaMalloc(reinterpret_cast<void **>(&p), 400), cudaSuccess, "the first is given");
  gives(cudaMalloc(reinterpret_cast<void **>(&q), 400), cudaErrorMemoryAllocation,
        "the second is not, as RG_SIM_OOM_AFTER says");
  ok(q == nullptr, "and its pointer is null");
  unsetenv("RG_SIM_OOM_AFTER");
  cudaFree(p);
  gives(cudaMalloc(reinterpret_cast<void **>(&q), static_cast<size_t>(9) << 30),
        cudaErrorMemoryAllocation, "more than there is");
  size_t free_bytes = 0, total = 1;
  cudaMemGetInfo(&free_bytes, &total);
  ok(free_bytes == total, "all memory is free again");
  cudaGetLastError();
}

// -- What ends the process ---------------------------------------------------------------------

// Runs it in a child, and looks for the text in what the child says before it dies.
static void dies(void (*body)(void), const char *text, const char *what)
{
  int ends[2];
  if (pipe(ends)) return;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    body();
    exit(0); // the thread sanitizer has its own status then
  }
  close(ends[1]);
  std::string said;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  bool found = said.find(text) != std::string::npos;
  if (!ok(status != 0 && found, what)) printf("# status %d, said: %s\n", status, said.c_str());
}

template <int WHICH> static void mistake_body(void)
{
  Array<float> y(std::vector<float>(32, 1.0f));
  test_mistake(WHICH, y.p, nullptr);
  cudaDeviceSynchronize();
}

static void copy_into_freed_body(void)
{
  cudaStream_t s = new_stream();
  cudaGraph_t g;
  cudaGraphExec_t exec;
  float *p;
  cudaMalloc(reinterpret_cast<void **>(&p), 4);
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  cudaMemsetAsync(p, 0, 4, s);
  cudaStreamEndCapture(s, &g);
  cudaGraphInstantiate(&exec, g, 0);
  cudaFree(p);
  cudaGraphLaunch(exec, s);
  if (cudaStreamSynchronize(s) != cudaErrorIllegalAddress) return;
  if (cudaMalloc(reinterpret_cast<void **>(&p), 4) == cudaErrorIllegalAddress) _exit(1);
}

static void test_reports(void)
{
  dies(mistake_body<HALF_AT_BARRIER>, "deadlock", "a deadlock is reported");
  dies(mistake_body<HALF_AT_BARRIER>, "test_sim.cu:", "with its places");
  dies(mistake_body<TWO_BARRIERS>, "at another barrier", "barriers at two lines");
  dies(mistake_body<OUTSIDE_MASK>, "not in its mask", "a shuffle from outside its mask");
  dies(mistake_body<NOT_IN_OWN_MASK>, "not in its own mask", "a lane outside its own mask");
  dies(mistake_body<ENDED_LANE>, "has ended", "a mask that names an ended lane");
  dies(mistake_body<TWO_OPERATIONS>, "different warp operations", "two operations under one mask");
  dies(mistake_body<STATIC_TOO_LARGE>, "48 KiB", "too much static shared memory");
  dies(mistake_body<HALF_A_PRODUCT>, "deadlock", "half a warp in a product");
  dies(mistake_body<TWO_PRODUCTS>, "different warp operations", "a product beside a load of tiles");
  dies(mistake_body<CROOKED_TILE>, "multiple of 16", "a row of a tile at an odd place");
  dies(mistake_body<CROOKED_COPY>, "multiple of as many", "a copy to an odd place");
  dies(mistake_body<FORGOTTEN_COPY>, "without a wait", "a thread that ends before its copies");
  dies(copy_into_freed_body, "that is gone", "a graph that outlives its memory");
}

#if defined(__SANITIZE_ADDRESS__)
static void test_sanitizer(void)
{
  dies(mistake_body<PAST_SHARED>, "heap-buffer-overflow", "past the end of shared memory");
  dies(mistake_body<PAST_GLOBAL>, "heap-buffer-overflow", "past the end of device memory");
}
#elif defined(__SANITIZE_THREAD__)
static void test_sanitizer(void)
{
  dies(mistake_body<RACE>, "data race", "two threads write to one address");
  dies(mistake_body<WARP_RACE>, "data race", "a shuffle in the place of __syncwarp");
}
#else
static void test_sanitizer(void)
{
}
#endif

// In a child where the thread sanitizer watches: it says that memory is raced for only once.
static void test_planted(void)
{
#if defined(__SANITIZE_THREAD__)
  dies([] { block_sum_error(false); }, "data race", "a sum without its barriers");
  dies([] { softmax_error(false); }, "data race", "softmax without its barrier");
#else
  test_missing_barrier();
  test_tensor_planted();
#endif
  test_missing_wait();
}

// -- Sweeps ------------------------------------------------------------------------------

// More sweeps would hide two that never meet, and no result shows that one meets two at a time.
static void test_pairs(void)
{
  for (int64_t k : { 1, 2, 3, 8, 9, 64, 65, 66 }) {
    std::vector<int> met(static_cast<size_t>(k * k), 0);
    bool apart = true, once = true;
    for (int64_t round = 0; round < rg_svd_rounds(k); round++) {
      std::vector<int> busy(static_cast<size_t>(k), 0);
      for (int64_t place = 0; place < rg_svd_places(k); place++) {
        int64_t i, j;
        if (!rg_svd_pair(k, round, place, &i, &j)) continue;
        apart = apart && 0 <= i && i < j && j < k && !busy[static_cast<size_t>(i)]++ &&
                !busy[static_cast<size_t>(j)]++;
        if (apart) met[static_cast<size_t>(i * k + j)]++;
      }
    }
    for (int64_t at = 0; at < k * k; at++)
      once = once && met[static_cast<size_t>(at)] == (at / k < at % k);
    ok(apart, "in a round nobody meets two, " + std::to_string(k) + " vectors");
    ok(once, "in a sweep each two meet once, " + std::to_string(k) + " vectors");
  }
}

int main(void)
{
  size_t allocations = rgsim_live_allocations(), handles = rgsim_live_handles();
  for (const char *order : ORDERS) {
    set_order(order);
    std::string in = std::string(", ") + order;
    test_kernels(in);
    test_streams(in);
    test_graph(in);
    for (const char *when : { "early", "late" }) {
      setenv("RG_SIM_CP", when, 1);
      test_tensor(in + ", copies " + when);
    }
  }
  test_planted();
  test_configurations();
  test_memory();
  test_capture_rules();
  test_devices();
  test_reports();
  test_sanitizer();
  test_pairs();
  ok(rgsim_live_allocations() == allocations, "no memory is left over");
  ok(rgsim_live_handles() == handles, "no stream, event or graph is left over");
  printf("1..%d\n", tests);
  return failures ? 1 : 0;
}
