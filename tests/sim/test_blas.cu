// SPDX-License-Identifier: MIT
//
// Tests of products by cublasLt that only C++ can make: while a graph is captured, without memory,
// on several devices; and of what the stand-in for cublasLt refuses, because a test in which it
// takes everything would prove nothing.
#include "fakeblas.h"
#include "fakecuda.h"
#include "test_sim_tap.h"

#include "gpu/blas/blas.cuh"
#include "gpu/kernels.cuh"
#include "gpu/sketch.cuh"

#include <cublasLt.h>
#include <cstdarg>
#include <cstring>

enum { M = 4, N = 8, K = 20 };

static rg_device_modes modes;
static std::string message;

static rg_status fail(rg_status code, const char *format, ...)
{
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  message = text;
  return code;
}

extern "C" rg_gpu_entry rg_gpu_plugin;

static const rg_device_modes *modes_now(void)
{
  return &modes;
}

// As ridge opens the plugin.
static void open_plugin(int32_t poison)
{
  const rg_gpu_host host = { RG_GPU_ABI, RG_ABI, RG_OP_COUNT, poison, fail,
                             modes_now,  NULL,   NULL,        NULL,   NULL };
  rg_gpu_offer offer;
  modes.vendor = modes.autotune = 1;
  ok(rg_gpu_plugin(&host, &offer) == RG_OK, "the plugin opens");
}

static bool said(const char *words)
{
  return message.find(words) != std::string::npos;
}

// -- A product and its reference ---------------------------------------------------------------

struct Sample {
  std::vector<float> a = numbers(M * K), b = numbers(K * N);
  Array<float> da, db, dc;

  Sample(void) : da(a), db(b), dc(M * N)
  {
  }
  rg_gemm gemm(void) const
  {
    rg_gemm g = {};
    g.m = M;
    g.n = N;
    g.k = K;
    g.count = 1;
    g.a = { da.p, K, 0, false };
    g.b = { db.p, N, 0, false };
    g.c = { dc.p, N, 0, false };
    g.factor = g.result = RG_F32;
    g.scale = 1;
    return g;
  }
  bool right(float times) const
  {
    cudaDeviceSynchronize();
    std::vector<double> c(M * N);
    for (int i = 0; i < M * N; i++) {
      for (int k = 0; k < K; k++)
        c[static_cast<size_t>(i)] += static_cast<double>(times) *
                                     a[static_cast<size_t>(i / N * K + k)] *
                                     b[static_cast<size_t>(k * N + i % N)];
    }
    return distance(dc.host(), c) < 1e-5;
  }
};

static bool takes(int32_t device, const rg_gemm &g)
{
  bool taken = false;
  return rg_blas_run(device, "test", &g, &taken) == RG_OK && taken;
}

// -- While a graph is captured -------------------------------------------------------------------

static cudaGraphExec_t end_capture(cudaStream_t s)
{
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  if (cudaStreamEndCapture(s, &graph) == cudaSuccess) {
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
  }
  return exec;
}

static void test_first_in_capture(void)
{
  Sample x;
  bool taken = true;
  rg_gemm g = x.gemm();
  cudaStream_t s = rg_gpu_stream(1);
  cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
  ok(rg_blas_run(1, "test", &g, &taken) == RG_EDEVICE && !taken &&
         said("cannot be started while a graph is captured"),
     "the first product cannot be captured, and says so");
  cudaGraphExec_t exec = end_capture(s);
  ok(exec != nullptr, "the capture is not lost by it");
  cudaGraphExecDestroy(exec);
}

static void test_capture(void)
{
  Sample x;
  rg_gemm g = x.gemm();
  cudaStream_t s = rg_gpu_stream(1);
  ok(takes(1, g) && x.right(1), "a product is right");

  // another scale is the same key, another size is not: it is chosen without timing
  g.scale = 2;
  size_t calls = rgsim_blas_counted(RGSIM_BLAS_CALLS), runs = rgsim_blas_counted(RGSIM_BLAS_RUNS);
  cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
  bool both = takes(1, g);
  rg_gemm half = g;
  half.n = N / 2;
  both = takes(1, half) && both;
  cudaGraphExec_t exec = end_capture(s);
  ok(both && exec != nullptr, "products are captured, known and new ones");
  ok(rgsim_blas_counted(RGSIM_BLAS_CALLS) == calls + 2 &&
         rgsim_blas_counted(RGSIM_BLAS_RUNS) == runs,
     "nothing is timed while a graph is captured, and nothing runs");
  cudaMemsetAsync(x.dc.p, 0, x.dc.bytes(), s);
  for (int i = 0; i < 3; i++)
    cudaGraphLaunch(exec, s);
  cudaStreamSynchronize(s);
  ok(x.right(2) && rgsim_blas_counted(RGSIM_BLAS_RUNS) == runs + 6, "each launch computes both");
  size_t asked = rgsim_blas_counted(RGSIM_BLAS_HEURISTICS);
  ok(takes(1, half) && rgsim_blas_counted(RGSIM_BLAS_HEURISTICS) == asked + 1,
     "what a capture chose is timed by the next call outside");
  ok(takes(1, half) && rgsim_blas_counted(RGSIM_BLAS_HEURISTICS) == asked + 1, "and only once");
  cudaStreamSynchronize(s);
  cudaGraphExecDestroy(exec);
}

static void test_workspace(void)
{
  cudaStream_t s = rg_gpu_stream(1);
  size_t before = rgsim_live_allocations();
  void *first = rg_gpu_workspace_part(1, RG_PART_SUM, 1000);
  ok(first && rg_gpu_workspace_part(1, RG_PART_SUM, 400) == first, "a workspace stays");
  ok(rg_gpu_workspace_part(1, RG_PART_LEFT, 400) != first, "parts are apart");
  void *second = rg_gpu_workspace_part(1, RG_PART_SUM, 5000);
  ok(second && rgsim_live_allocations() == before + 2, "one that no graph knows is freed");
  cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
  ok(rg_gpu_workspace_part(1, RG_PART_SUM, 5000) == second, "a capture gets what is there");
  ok(rg_gpu_workspace_part(1, RG_PART_SUM, 50000) == nullptr, "it does not grow in a capture");
  ok(rg_gpu_no_room(1, "test", 50000) == RG_ENOMEM && said("while a graph is captured"),
     "which says why");
  cudaMemsetAsync(second, 0, 5000, s);
  cudaGraphExec_t exec = end_capture(s);
  void *third = rg_gpu_workspace_part(1, RG_PART_SUM, 50000);
  ok(third && third != second && rgsim_live_allocations() == before + 3,
     "one that a graph knows is kept");
  gives(cudaGraphLaunch(exec, s), cudaSuccess, "the graph is launched");
  gives(cudaStreamSynchronize(s), cudaSuccess, "and finds its memory");
  cudaGraphExecDestroy(exec);
}

// What the first bytes of the workspace hold when it was handed out again, written in between.
static std::vector<float> handed_out(cudaGraphExec_t *exec)
{
  cudaStream_t s = rg_gpu_stream(1);
  std::vector<float> found(250);
  void *room = rg_gpu_workspace_part(1, RG_PART_SUM, 1000);
  cudaMemsetAsync(room, 0, 1000, s);
  if (exec) {
    cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
    room = rg_gpu_workspace_part(1, RG_PART_SUM, 1000);
    *exec = end_capture(s);
    cudaGraphLaunch(*exec, s);
    cudaGraphExecDestroy(*exec);
  } else {
    room = rg_gpu_workspace_part(1, RG_PART_SUM, 1000);
  }
  cudaMemcpyAsync(found.data(), room, 1000, cudaMemcpyDeviceToHost, s);
  cudaStreamSynchronize(s);
  return found;
}

static void test_poison(void)
{
  cudaGraphExec_t exec = nullptr;
  ok(handed_out(nullptr)[249] == 0, "a workspace that is handed out again keeps what it held");
  open_plugin(1);
  float last = handed_out(nullptr)[249];
  ok(last != last, "with poison it is nan");
  last = handed_out(&exec)[249];
  ok(last != last, "in a graph too");
  Sample x;
  ok(takes(1, x.gemm()) && x.right(1), "and products are right");
  open_plugin(0);
}

// -- Without memory ----------------------------------------------------------------------------

static void test_no_memory(void)
{
  cudaSetDevice(1);
  Sample x;
  setenv("RG_SIM_OOM_AFTER", "0", 1);
  ok(takes(2, x.gemm()), "without memory for a workspace products go on");
  ok(rg_gpu_workspace_part(2, RG_PART_LEFT, 1000) == nullptr &&
         rg_gpu_no_room(2, "test", 1000) == RG_ENOMEM && said("test: the GPU has no memory left"),
     "a call that needs memory says so");
  unsetenv("RG_SIM_OOM_AFTER");
  ok(rg_gpu_workspace_part(2, RG_PART_LEFT, 1000) != nullptr, "and finds some when there is again");
  size_t before = rgsim_live_allocations();
  setenv("RG_SIM_OOM_OVER", "1400", 1);
  ok(rg_gpu_workspace_part(2, RG_PART_LEFT, 1200) != nullptr && rgsim_live_allocations() == before,
     "where there is no room to grow by half, a workspace grows by what is asked for");
  unsetenv("RG_SIM_OOM_OVER");
  rgsim_blas_product last;
  rgsim_blas_last(&last);
  ok(x.right(1) && last.algo != RGSIM_BLAS_SPLIT && last.algo != RGSIM_BLAS_INPLACE,
     "by algorithms that need none");
  cudaDeviceSynchronize();
  cudaSetDevice(0);
}

// -- What is refused ---------------------------------------------------------------------------

// A product straight through cublasLt, right unless something is changed.
struct Direct {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasLtMatmulHeuristicResult_t result[8];
  int n = 0;

  explicit Direct(cudaDataType_t type = CUDA_R_32F,
                  cublasComputeType_t compute = CUBLAS_COMPUTE_32F)
  {
    static cublasLtHandle_t shared;
    if (!shared) cublasLtCreate(&shared);
    handle = shared;
    cublasLtMatmulDescInit(&desc, compute, type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F);
    cublasLtMatrixLayoutInit(&a, type, 8, 6, 8);
    cublasLtMatrixLayoutInit(&b, type, 6, 4, 6);
    cublasLtMatrixLayoutInit(&c, type, 8, 4, 8);
    cublasLtMatrixLayoutInit(&d, type, 8, 4, 8);
    cublasLtMatmulPreferenceInit(&preference);
  }
  template <class T> Direct &with(cublasLtMatmulDescAttributes_t attribute, T value)
  {
    cublasLtMatmulDescSetAttribute(&desc, attribute, &value, sizeof value);
    return *this;
  }
  cublasStatus_t ask(void)
  {
    return cublasLtMatmulAlgoGetHeuristic(handle, &desc, &a, &b, &c, &d, &preference, 8, result,
                                          &n);
  }
  cublasStatus_t run(const float *x, float *y, const cublasLtMatmulAlgo_t *algo, float beta)
  {
    float alpha = 1;
    return cublasLtMatmul(handle, &desc, &alpha, x, &a, x, &b, &beta, y, &c, y, &d, algo, nullptr,
                          0, nullptr);
  }
};

static void refuses(cublasStatus_t status, const char *what)
{
  ok(status != CUBLAS_STATUS_SUCCESS, std::string("the stand-in refuses ") + what);
}

static void test_refused_forms(void)
{
  ok(Direct().ask() == CUBLAS_STATUS_SUCCESS, "the stand-in takes a product");
  Direct x;
  cublasLtMatrixLayoutInit(&x.a, CUDA_R_32F, 8, 6, 7);
  refuses(x.ask(), "a leading dimension below the rows");
  x = Direct();
  cublasLtMatrixLayoutInit(&x.b, CUDA_R_32F, 5, 4, 5);
  refuses(x.ask(), "sizes that do not agree");
  refuses(Direct().with(CUBLASLT_MATMUL_DESC_TRANSA, int32_t(CUBLAS_OP_T)).ask(),
          "a transposed factor of the wrong shape");
  x = Direct();
  cublasLtMatrixLayoutInit(&x.d, CUDA_R_16F, 8, 4, 8);
  refuses(x.ask(), "c and d of different types");
  refuses(Direct(CUDA_R_16BF, CUBLAS_COMPUTE_32F_FAST_TF32).ask(), "tf32 of bf16");
  refuses(Direct(CUDA_R_64F, CUBLAS_COMPUTE_32F).ask(), "f64 with sums in f32");
  int32_t two = 2;
  x = Direct();
  cublasLtMatrixLayoutSetAttribute(&x.d, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &two, sizeof two);
  refuses(x.ask(), "batches of different sizes");
  for (auto *l : { &x.a, &x.b, &x.c })
    cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &two, sizeof two);
  refuses(x.ask(), "results that lie on each other");
}

// Bytes: a transposed [16 x 8], b [16 x 4], d [8 x 4] of whole sums.
static Direct bytes(cudaDataType_t scale = CUDA_R_32I)
{
  Direct x;
  cublasLtMatmulDescInit(&x.desc, CUBLAS_COMPUTE_32I, scale);
  x.with(CUBLASLT_MATMUL_DESC_TRANSA, int32_t(CUBLAS_OP_T));
  cublasLtMatrixLayoutInit(&x.a, CUDA_R_8I, 16, 8, 16);
  cublasLtMatrixLayoutInit(&x.b, CUDA_R_8I, 16, 4, 16);
  cublasLtMatrixLayoutInit(&x.c, CUDA_R_32I, 8, 4, 8);
  cublasLtMatrixLayoutInit(&x.d, CUDA_R_32I, 8, 4, 8);
  return x;
}

static void test_refused_bytes(void)
{
  ok(bytes().ask() == CUBLAS_STATUS_SUCCESS, "the stand-in takes bytes with whole sums");
  refuses(bytes(CUDA_R_32F).ask(), "whole sums that are scaled by a float");
  Direct x = bytes();
  cublasLtMatrixLayoutInit(&x.a, CUDA_R_8I, 8, 16, 8);
  refuses(x.with(CUBLASLT_MATMUL_DESC_TRANSA, int32_t(CUBLAS_OP_N)).ask(), "bytes by columns");
  x = bytes();
  cublasLtMatrixLayoutInit(&x.b, CUDA_R_8I, 4, 16, 4);
  refuses(x.with(CUBLASLT_MATMUL_DESC_TRANSB, int32_t(CUBLAS_OP_T)).ask(), "bytes, b transposed");
  x = bytes();
  cublasLtMatrixLayoutInit(&x.a, CUDA_R_8I, 16, 6, 16);
  for (auto *l : { &x.c, &x.d })
    cublasLtMatrixLayoutInit(l, CUDA_R_32I, 6, 4, 8);
  refuses(x.ask(), "bytes, six columns of the result");
  x = bytes();
  cublasLtMatrixLayoutInit(&x.b, CUDA_R_8I, 16, 4, 18);
  refuses(x.ask(), "bytes, a leading dimension of 18");
  refuses(bytes().with(CUBLASLT_MATMUL_DESC_EPILOGUE, int32_t(CUBLASLT_EPILOGUE_RELU)).ask(),
          "bytes with relu");
}

// 8-bit floats: a transposed [16 x 32], b [16 x 16], d [32 x 16].
static Direct floats(cudaDataType_t a = CUDA_R_8F_E4M3, cudaDataType_t b = CUDA_R_8F_E5M2,
                     cudaDataType_t d = CUDA_R_16BF, uint64_t k = 16, uint64_t n = 16)
{
  Direct x;
  x.with(CUBLASLT_MATMUL_DESC_TRANSA, int32_t(CUBLAS_OP_T));
  cublasLtMatrixLayoutInit(&x.a, a, k, 32, k);
  cublasLtMatrixLayoutInit(&x.b, b, k, n, k);
  for (auto *l : { &x.c, &x.d })
    cublasLtMatrixLayoutInit(l, d, 32, n, 32);
  return x;
}

static void test_refused_floats(void)
{
  const auto SCALE = CUBLASLT_MATMUL_DESC_A_SCALE_POINTER;
  ok(floats().ask() == CUBLAS_STATUS_SUCCESS, "the stand-in takes 8-bit floats");
  ok(floats().with(SCALE, uint64_t(4096)).ask() == CUBLAS_STATUS_SUCCESS, "with a scale");
  refuses(Direct().with(SCALE, uint64_t(4096)).ask(), "a scale of f32");
  refuses(floats(CUDA_R_8F_E5M2).ask(), "both factors in e5m2");
  refuses(floats(CUDA_R_8F_E4M3, CUDA_R_16BF).ask(), "a half type beside an 8-bit one");
  refuses(floats(CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_64F).ask(), "a result in f64");
  refuses(floats(CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_32F, 24).ask(), "an inner size of 24");
  ok(floats(CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_32F, 16, 8).ask() == CUBLAS_STATUS_SUCCESS,
     "eight columns are taken, as on an H200");
  const auto MODE = CUBLASLT_MATMUL_DESC_A_SCALE_MODE;
  const int32_t vector = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  refuses(floats().with(SCALE, uint64_t(4096)).with(MODE, vector).ask(),
          "a vector of scales for one factor");
  refuses(floats().with(CUBLASLT_MATMUL_DESC_TRANSA, int32_t(CUBLAS_OP_N)).ask(),
          "8-bit floats by columns");
  refuses(floats().with(CUBLASLT_MATMUL_DESC_EPILOGUE, int32_t(CUBLASLT_EPILOGUE_RELU)).ask(),
          "8-bit floats with relu");
  setenv("RG_SIM_CAPABILITY", "80", 1);
  refuses(floats().ask(), "8-bit floats on a GPU without them");
  unsetenv("RG_SIM_CAPABILITY");
}

static void test_refused_ends(void)
{
  const int32_t bias = CUBLASLT_EPILOGUE_BIAS, gelu = CUBLASLT_EPILOGUE_GELU;
  const int32_t half = CUDA_R_16BF, relu = CUBLASLT_EPILOGUE_RELU;
  const auto END = CUBLASLT_MATMUL_DESC_EPILOGUE;
  const auto AT = CUBLASLT_MATMUL_DESC_BIAS_POINTER;
  ok(Direct().with(END, bias).with(AT, uint64_t(4096)).ask() == CUBLAS_STATUS_SUCCESS,
     "the stand-in takes a bias");
  refuses(Direct().with(END, bias).ask(), "a bias that is nowhere");
  refuses(Direct().with(END, bias).with(AT, uint64_t(4100)).ask(), "a bias that is not aligned");
  refuses(Direct()
              .with(END, bias)
              .with(AT, uint64_t(4096))
              .with(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, half)
              .ask(),
          "a bias of another type than the result");
  refuses(Direct().with(END, gelu).ask(), "gelu, which is not ours");
  refuses(Direct(CUDA_R_64F, CUBLAS_COMPUTE_64F).with(END, relu).ask(), "relu of f64");
  Direct x;
  int64_t wide = 1;
  refuses(cublasLtMatmulDescSetAttribute(&x.desc, END, &wide, sizeof wide),
          "an attribute of the wrong size");
  refuses(cublasLtMatmulDescSetAttribute(&x.desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &wide, 1),
          "an attribute that it does not know");
}

static void test_refused_runs(void)
{
  Array<float> x(64), y(64);
  Direct p;
  p.ask();
  const cublasLtMatmulAlgo_t *any = &p.result[p.n - 1].algo;
  ok(p.run(x.p, y.p, any, 0) == CUBLAS_STATUS_SUCCESS, "the stand-in runs a product");
  refuses(p.run(x.p, y.p, any, 1), "to add to what is there");
  refuses(p.run(x.p, y.p, nullptr, 0), "to run without an algorithm");
  refuses(p.run(x.p, y.p + 40, any, 0), "a result that leaves its memory");
  refuses(p.run(numbers(64).data(), y.p, any, 0), "a factor on the host");
  cublasLtMatmulAlgo_t odd = *any;
  odd.data[1] ^= 1;
  refuses(p.run(x.p, y.p, &odd, 0), "an algorithm that nobody named");
  cudaDeviceSynchronize();
}

// -- Kernels of signs --------------------------------------------------------------------------

static rg_tensor matrix_of(int64_t rows, int64_t cols)
{
  rg_tensor x = {};
  x._dtype = RG_F32;
  x._ndim = 2;
  x._shape[0] = rows;
  x._shape[1] = x._stride[0] = cols;
  x._stride[1] = 1;
  return x;
}

// Factors with so many columns, of which no element is read.
static bool sketch_fits(int64_t rows, int64_t cols1, int64_t cols2)
{
  rg_op op = {};
  op.id = RG_OP_SKETCHED_LINEAR_SEED;
  const rg_tensor x = matrix_of(rows, 24), s1 = matrix_of(24, cols1), seed = {};
  const rg_tensor s2 = matrix_of(cols1, cols2);
  rg_tensor y = matrix_of(rows, cols2);
  const rg_tensor *in[] = { &x, &s1, &seed, &s2 };
  rg_tensor *out[] = { &y };
  rg_call call = {};
  call.op = &op;
  call.in = in;
  call.n_in = 4;
  call.n_out = 1;
  return rg_gpu_sketch_fits(&call, out);
}

static void test_sketch_fits(void)
{
  const int64_t most = 1 << 20;
  ok(sketch_fits(1, 1, 1) && !sketch_fits(1, 0, 1) && !sketch_fits(1, 1, 0),
     "kernels of signs take factors of a column, and none without");
  ok(sketch_fits(8, most, 40) && !sketch_fits(8, most + 1, 40),
     "2^20 columns of the first factor, and no more");
  ok(sketch_fits(8, 40, most) && !sketch_fits(8, 40, most + 1), "and of the second");
  ok(sketch_fits(1 << 28, 40, 40) && !sketch_fits((1 << 28) + 1, 40, 40) && !sketch_fits(0, 40, 40),
     "2^28 rows, and one at least");
}

int main(void)
{
  setenv("RG_SIM_DEVICES", "2", 1);
  unsetenv("XDG_CACHE_HOME");
  open_plugin(0);
  for (const char *order : ORDERS) {
    set_order(order);
    if (order == ORDERS[0]) {
      test_first_in_capture();
      test_capture();
      test_workspace();
      test_poison();
      test_no_memory();
    }
    Sample x;
    ok(takes(1, x.gemm()) && cudaStreamSynchronize(rg_gpu_stream(1)) == cudaSuccess && x.right(1),
       std::string("a product is right, ") + order);
  }
  ok(rgsim_blas_counted(RGSIM_BLAS_MISUSES) == 0, "cublasLt is used as it is meant to be");
  test_sketch_fits();
  test_refused_forms();
  test_refused_bytes();
  test_refused_floats();
  test_refused_ends();
  test_refused_runs();
  printf("1..%d\n", tests);
  return failures ? 1 : 0;
}
