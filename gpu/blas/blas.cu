/* SPDX-License-Identifier: MIT */
/*
** Products by cublasLt.  Its matrices are columns that lie one after the other, ours are rows: what
** it is asked for is c' = b' a', and its m is our n.
**
** Which of its algorithms runs: its heuristic names up to eight; where the modes allow it each is
** timed once for each kind of product and the fastest stays (tuned.cu), else it is the first that
** runs.  Partial sums of a split product are added in the type of the sums, never in a half type.
** Sums of 8-bit floats are made without FAST_ACCUM, which is off where it is not asked for.
** A mode that wants the same bits each time also forbids adding in place, and times nothing: two
** processes could choose otherwise.
**
** What is believed of the library, and where each belief is tested: tests/sim/README.md.
*/
#include "gpu/blas/blas.cuh"
#include "gpu/stream.cuh"

#include <mutex>

#include "gpu/blas/tuned.cuh"

enum {
  WORKSPACE = 32 << 20, /* bytes, what NVIDIA advises for compute capability 9.0 */
  CANDIDATES = 8,
  ALIGNED = 16,    /* bytes: its kernels gain nothing from more */
  LONG_ENOUGH = 2, /* milliseconds: one run is measure enough */
  RUNS = 3         /* of shorter ones; the shortest counts */
};

/* The library of one stream of a GPU.  The workspace is never freed or moved, because graphs hold
** its address; streams run side by side, so each has its own. */
struct card {
  cublasLtHandle_t handle;
  void *workspace; /* or NULL: there was no memory */
  int64_t bytes;
  int64_t version, identity;
};

static card cards[RG_DEVICES][RG_STREAMS];
static std::mutex lock;

/* A product as cublasLt sees it. */
struct problem {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c; /* its a is our b */
  const void *a_data, *b_data;
  void *c_data;
  union {
    float f;
    double d;
    int32_t i;
  } alpha, beta;
  cublasComputeType_t compute;
  uint32_t schemes; /* of reduction, that are allowed */
  const card *on;
  cudaStream_t stream;
};

/* -- Starting ---------------------------------------------------------------------------------- */

static const char *name_of(cublasStatus_t status)
{
  switch (status) {
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "not initialized";
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "no memory";
  case CUBLAS_STATUS_ARCH_MISMATCH:
    return "not for this GPU";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "execution failed";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "not supported";
  default:
    return "error";
  }
}

static rg_status start(int32_t device, const char *what, const card **out)
{
  std::lock_guard<std::mutex> held(lock);
  card *c = &cards[device][rg_gpu_stream_now(device)];
  cublasStatus_t status;

  *out = c;
  if (c->handle != NULL) {
    return RG_OK;
  }
  if (rg_gpu_captures(device)) {
    return rg_gpu->fail(RG_EDEVICE,
                        "%s: cublasLt cannot be started while a graph is captured;"
                        " run the call once before",
                        what);
  }
  status = cublasLtCreate(&c->handle);
  if (status != CUBLAS_STATUS_SUCCESS) {
    c->handle = NULL;
    RG_TRY(rg_gpu_lost(device, what));
    return rg_gpu->fail(RG_EDEVICE, "%s: cublasLt does not start on cuda:%d: %s (%d)", what,
                        device - 1, name_of(status), (int)status);
  }
  c->version = (int64_t)cublasLtGetVersion();
  c->identity = rg_gpu_identity(device);
  c->bytes = WORKSPACE;
  if (cudaMalloc(&c->workspace, WORKSPACE) != cudaSuccess) {
    (void)cudaGetLastError();
    c->workspace = NULL;
    c->bytes = 0;
  }
  return RG_OK;
}

/* -- Describing -------------------------------------------------------------------------------- */

static cudaDataType_t type_of(int32_t dtype)
{
  switch (dtype) {
  case RG_F64:
    return CUDA_R_64F;
  case RG_F32:
    return CUDA_R_32F;
  case RG_BF16:
    return CUDA_R_16BF;
  case RG_I8:
    return CUDA_R_8I;
  case RG_I32:
    return CUDA_R_32I;
  case RG_F8E4M3:
    return CUDA_R_8F_E4M3;
  case RG_F8E5M2:
    return CUDA_R_8F_E5M2;
  default:
    return CUDA_R_16F;
  }
}

/* The type of b. */
static int32_t other_of(const rg_gemm *g)
{
  return g->factor == RG_F8E4M3 || g->factor == RG_F8E5M2 ? g->other : g->factor;
}

#define TRY(call)                        \
  do {                                   \
    cublasStatus_t try_ = (call);        \
    if (try_ != CUBLAS_STATUS_SUCCESS) { \
      return try_;                       \
    }                                    \
  } while (0)

template <class T>
static cublasStatus_t set(problem *q, cublasLtMatmulDescAttributes_t attribute, T value)
{
  return cublasLtMatmulDescSetAttribute(&q->desc, attribute, &value, sizeof(value));
}

/* rows, cols: of the matrix in memory, column-major. */
static cublasStatus_t lay(cublasLtMatrixLayoutOpaque_t *l, int32_t dtype, int64_t rows,
                          int64_t cols, const rg_gemm_side &side, int64_t count)
{
  int32_t n = (int32_t)count;

  TRY(cublasLtMatrixLayoutInit(l, type_of(dtype), (uint64_t)rows, (uint64_t)cols, side.ld));
  if (count == 1) {
    return CUBLAS_STATUS_SUCCESS;
  }
  TRY(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof(n)));
  return cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &side.step, sizeof(side.step));
}

/* How it is computed, and the one number that scales it. */
static cudaDataType_t compute_of(problem *q, const rg_gemm *g)
{
  q->alpha.d = q->beta.d = 0;
  switch (g->factor) {
  case RG_F64:
    q->compute = CUBLAS_COMPUTE_64F;
    q->alpha.d = g->scale;
    return CUDA_R_64F;
  case RG_I8:
    q->compute = CUBLAS_COMPUTE_32I;
    q->alpha.i = 1;
    return CUDA_R_32I;
  default:
    q->compute = g->factor == RG_F32 && rg_gpu->modes()->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                              : CUBLAS_COMPUTE_32F;
    q->alpha.f = (float)g->scale;
    return CUDA_R_32F;
  }
}

static cublasStatus_t describe(problem *q, const rg_gemm *g)
{
  cudaDataType_t scale = compute_of(q, g);
  int32_t epilogue = g->bias != NULL && g->relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                     : g->bias != NULL          ? CUBLASLT_EPILOGUE_BIAS
                     : g->relu                  ? CUBLASLT_EPILOGUE_RELU
                                                : CUBLASLT_EPILOGUE_DEFAULT;

  q->a_data = g->b.data;
  q->b_data = g->a.data;
  q->c_data = g->c.data;
  q->schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (g->result != RG_F16 && g->result != RG_BF16 && !rg_gpu->modes()->deterministic) {
    q->schemes |= CUBLASLT_REDUCTION_SCHEME_INPLACE;
  }
  TRY(cublasLtMatmulDescInit(&q->desc, q->compute, scale));
  TRY(set(q, CUBLASLT_MATMUL_DESC_TRANSA, (int32_t)(g->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N)));
  TRY(set(q, CUBLASLT_MATMUL_DESC_TRANSB, (int32_t)(g->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N)));
  TRY(set(q, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
  if (g->bias != NULL) {
    TRY(set(q, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g->bias));
    TRY(set(q, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, (int32_t)type_of(g->result)));
  }
  if (g->a_scale != NULL) {
    TRY(set(q, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, g->a_scale));
  }
  if (g->b_scale != NULL) {
    TRY(set(q, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, g->b_scale));
  }
  if (g->by_row) {
    const int32_t each = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F; /* before 12.9: no such */

    TRY(set(q, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, each));
    TRY(set(q, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, each));
  }
  TRY(lay(&q->a, other_of(g), g->b.transposed ? g->k : g->n, g->b.transposed ? g->n : g->k, g->b,
          g->count));
  TRY(lay(&q->b, g->factor, g->a.transposed ? g->m : g->k, g->a.transposed ? g->k : g->m, g->a,
          g->count));
  return lay(&q->c, g->result, g->n, g->m, g->c, g->count);
}

/* What an address is a multiple of. */
static uint32_t alignment_of(const void *data)
{
  uintptr_t at = (uintptr_t)data | ALIGNED;

  return (uint32_t)(at & -at);
}

static rg_tuned_key key_of(const problem *q, const rg_gemm *g)
{
  const rg_device_modes *modes = rg_gpu->modes();
  rg_tuned_key key = {};
  int64_t *f = key.field;
  bool many = g->count > 1;

  f[RG_TUNED_LIBRARY] = q->on->version;
  f[RG_TUNED_CARD] = q->on->identity;
  f[RG_TUNED_M] = g->m;
  f[RG_TUNED_N] = g->n;
  f[RG_TUNED_K] = g->k;
  f[RG_TUNED_COUNT] = g->count;
  f[RG_TUNED_LD_A] = g->a.ld;
  f[RG_TUNED_LD_B] = g->b.ld;
  f[RG_TUNED_LD_C] = g->c.ld;
  f[RG_TUNED_STEP_A] = many ? g->a.step : 0;
  f[RG_TUNED_STEP_B] = many ? g->b.step : 0;
  f[RG_TUNED_STEP_C] = many ? g->c.step : 0;
  f[RG_TUNED_TYPES] = g->factor | g->result << 8 | (int64_t)q->compute << 16 |
                      (int64_t)g->a.transposed << 32 | (int64_t)g->b.transposed << 33 |
                      (int64_t)(other_of(g) ^ g->factor) << 40;
  f[RG_TUNED_END] = (g->bias != NULL) | g->relu << 1 | (g->a_scale != NULL) << 2 |
                    (g->b_scale != NULL) << 3 | g->by_row << 4;
  f[RG_TUNED_ALIGNED] =
      alignment_of(g->a.data) | alignment_of(g->b.data) << 8 | alignment_of(g->c.data) << 16;
  f[RG_TUNED_WORKSPACE] = q->on->bytes;
  f[RG_TUNED_SCHEMES] = q->schemes;
  f[RG_TUNED_MODES] = (modes->autotune != 0) | (modes->deterministic != 0) << 1;
  return key;
}

/* -- Algorithms -------------------------------------------------------------------------------- */

/* Did it start?  What a refused launch leaves behind would be the next call's error. */
static bool runs(problem *q, const cublasLtMatmulAlgo_t *algo)
{
  if (cublasLtMatmul(q->on->handle, &q->desc, &q->alpha, q->a_data, &q->a, q->b_data, &q->b,
                     &q->beta, q->c_data, &q->c, q->c_data, &q->c, algo, q->on->workspace,
                     (size_t)q->on->bytes, q->stream) == CUBLAS_STATUS_SUCCESS) {
    return true;
  }
  (void)cudaGetLastError();
  return false;
}

/* Is the way this algorithm adds up the parts of a split sum an allowed one? */
static bool allowed(const problem *q, const cublasLtMatmulAlgo_t *algo)
{
  uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
  size_t written = 0;

  if (cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                           sizeof(scheme), &written) != CUBLAS_STATUS_SUCCESS) {
    return false;
  }
  return (scheme & ~q->schemes) == 0;
}

template <class T>
static cublasStatus_t prefer(cublasLtMatmulPreferenceOpaque_t *p,
                             cublasLtMatmulPreferenceAttributes_t attribute, T value)
{
  return cublasLtMatmulPreferenceSetAttribute(p, attribute, &value, sizeof(value));
}

static cublasStatus_t ask(problem *q, cublasLtMatmulHeuristicResult_t *result, int *n)
{
  cublasLtMatmulPreferenceOpaque_t p;
  uint32_t c = alignment_of(q->c_data);

  TRY(cublasLtMatmulPreferenceInit(&p));
  TRY(prefer(&p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (uint64_t)q->on->bytes));
  TRY(prefer(&p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, q->schemes));
  TRY(prefer(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(q->a_data)));
  TRY(prefer(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(q->b_data)));
  TRY(prefer(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c));
  TRY(prefer(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c));
  return cublasLtMatmulAlgoGetHeuristic(q->on->handle, &q->desc, &q->a, &q->b, &q->c, &q->c, &p,
                                        CANDIDATES, result, n);
}

/* What the library would take, its best first; how many. */
static int candidates_of(problem *q, cublasLtMatmulAlgo_t *algo)
{
  cublasLtMatmulHeuristicResult_t result[CANDIDATES];
  int given = 0;
  int n = 0;

  if (ask(q, result, &given) != CUBLAS_STATUS_SUCCESS) {
    return 0;
  }
  for (int i = 0; i < given; i++) {
    if (result[i].state == CUBLAS_STATUS_SUCCESS &&
        (int64_t)result[i].workspaceSize <= q->on->bytes && allowed(q, &result[i].algo)) {
      algo[n++] = result[i].algo;
    }
  }
  return n;
}

/* Does the library, as it is now, agree to an algorithm that a file names? */
static bool agrees(problem *q, const cublasLtMatmulAlgo_t *algo)
{
  cublasLtMatmulHeuristicResult_t result = {};

  return cublasLtMatmulAlgoCheck(q->on->handle, &q->desc, &q->a, &q->b, &q->c, &q->c, algo,
                                 &result) == CUBLAS_STATUS_SUCCESS &&
         (int64_t)result.workspaceSize <= q->on->bytes && allowed(q, algo);
}

/* -- Timing ------------------------------------------------------------------------------------ */

/* Milliseconds of a run; negative where it does not run or cannot be timed. */
static float time_of(problem *q, const cublasLtMatmulAlgo_t *algo, cudaEvent_t begin,
                     cudaEvent_t end)
{
  float best = -1;

  if (!runs(q, algo)) { /* the first run also loads the kernel */
    return -1;
  }
  for (int i = 0; i < RUNS && best < LONG_ENOUGH; i++) {
    float ms = 0;

    if (cudaEventRecord(begin, q->stream) != cudaSuccess || !runs(q, algo) ||
        cudaEventRecord(end, q->stream) != cudaSuccess ||
        cudaEventSynchronize(end) != cudaSuccess ||
        cudaEventElapsedTime(&ms, begin, end) != cudaSuccess) {
      (void)cudaGetLastError();
      return -1;
    }
    best = best < 0 || ms < best ? ms : best;
  }
  return best;
}

/* The fastest of n, or -1 where none could be timed. */
static int fastest(problem *q, const cublasLtMatmulAlgo_t *algo, int n)
{
  cudaEvent_t begin = NULL;
  cudaEvent_t end = NULL;
  float least = -1;
  int best = -1;

  if (cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess) {
    for (int i = 0; i < n; i++) {
      float ms = time_of(q, &algo[i], begin, end);

      if (ms >= 0 && (best < 0 || ms < least)) {
        best = i;
        least = ms;
      }
    }
  }
  if (begin != NULL) {
    (void)cudaEventDestroy(begin);
  }
  if (end != NULL) {
    (void)cudaEventDestroy(end);
  }
  return best;
}

/* -- Choosing ---------------------------------------------------------------------------------- */

/* Run by an algorithm that is not known yet, and remember it; that there is none, too, unless it is
** the device that does not run anything. */
static rg_status run_new(int32_t device, const char *what, problem *q, const rg_tuned_key *key,
                         bool times, bool *taken)
{
  cublasLtMatmulAlgo_t algo[CANDIDATES];
  int n = candidates_of(q, algo);
  int best = times ? fastest(q, algo, n) : -1;

  if (best >= 0 && runs(q, &algo[best])) {
    rg_tuned_keep(key, RG_TUNED_BEST, &algo[best]);
    *taken = true;
    return RG_OK;
  }
  for (int i = 0; i < n; i++) {
    if (runs(q, &algo[i])) {
      rg_tuned_keep(key, RG_TUNED_FIRST, &algo[i]);
      *taken = true;
      return RG_OK;
    }
  }
  RG_TRY(rg_gpu_lost(device, what));
  rg_tuned_keep(key, RG_TUNED_NONE, NULL);
  return RG_OK;
}

rg_status rg_blas_run(int32_t device, const char *what, const rg_gemm *g, bool *taken)
{
  cublasLtMatmulAlgo_t algo;
  rg_tuned_key key;
  problem q = {};
  int32_t state;
  bool times;

  *taken = false;
  RG_TRY(start(device, what, &q.on));
  q.stream = rg_gpu_stream(device);
  rg_gpu_poison(device, q.on->workspace, q.on->bytes);
  if (g->count > INT32_MAX || describe(&q, g) != CUBLAS_STATUS_SUCCESS) {
    return RG_OK;
  }
  key = key_of(&q, g);
  state = rg_tuned_find(&key, &algo);
  if (state == RG_TUNED_NONE) {
    return RG_OK;
  }
  if (state == RG_TUNED_LOADED && agrees(&q, &algo)) {
    state = RG_TUNED_CHECKED;
    rg_tuned_keep(&key, state, &algo);
  }
  if (state == RG_TUNED_BEST || state == RG_TUNED_CHECKED) {
    *taken = runs(&q, &algo);
    if (*taken) {
      return RG_OK;
    }
  }
  times = rg_gpu->modes()->autotune && !rg_gpu->modes()->deterministic && !rg_gpu_captures(device);
  *taken = state == RG_TUNED_FIRST && !times && runs(&q, &algo);
  return *taken ? RG_OK : run_new(device, what, &q, &key, times, taken);
}
