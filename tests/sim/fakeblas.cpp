// SPDX-License-Identifier: MIT
//
// A stand-in for the part of cublasLt that gpu/ uses, against the real header. It computes every
// product, as work of its stream, and takes only what the documentation promises: where that says
// nothing, it refuses. An attribute that is not here fails loudly.
//
// The heuristic names several algorithms, of which one does not run for some shapes and one adds
// partial sums in the type of the output: choosing among them is what the tests look at.
#include "fakeblas_run.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace fake;

namespace
{

enum : uint32_t {
  DESC = 0x64657363,
  LAYOUT = 0x6c61796f,
  PREFERENCE = 0x70726566,
  ALGO = 0x616c676f,
  HANDLE = 0x68616e64
};
enum : size_t { SPLIT_BYTES = 1 << 20 }; // of workspace

struct Handle {
  uint32_t magic;
  int device;
};

static_assert(sizeof(Desc) <= sizeof(cublasLtMatmulDescOpaque_t), "room");
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "room");
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "room");
static_assert(sizeof(Algo) <= sizeof(cublasLtMatmulAlgo_t), "room");

size_t counts[RGSIM_BLAS_COUNTS];
rgsim_blas_product last;

__attribute__((format(printf, 2, 3))) cublasStatus_t wrong(cublasStatus_t status,
                                                           const char *format, ...)
{
  va_list args;
  va_start(args, format);
  fprintf(stderr, "fakeblas: ");
  vfprintf(stderr, format, args);
  fprintf(stderr, " (%d)\n", static_cast<int>(status));
  va_end(args);
  counts[RGSIM_BLAS_MISUSES]++;
  return status;
}

// -- Opaque structures -----------------------------------------------------------------------

template <class T, class O> T *open(O *opaque, uint32_t magic)
{
  T *x = reinterpret_cast<T *>(opaque);
  return x && x->magic == magic ? x : nullptr;
}

template <class T> cublasStatus_t take(T *to, const void *from, size_t bytes, const char *what)
{
  if (!from || bytes != sizeof(T)) {
    return wrong(CUBLAS_STATUS_INVALID_VALUE, "%s is %zu bytes, not %zu", what, sizeof(T), bytes);
  }
  memcpy(to, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// How the scales of a factor are read: an attribute that is younger than the others, and that ridge
// may set all the same, because a library that has it not says so.
cublasStatus_t take_mode(int32_t *to, const void *from, size_t bytes)
{
  if (cublasLtGetVersion() < 120900) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t e = take(to, from, bytes, "how scales are read")) return e;
  return *to == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F
             ? CUBLAS_STATUS_SUCCESS
             : wrong(CUBLAS_STATUS_NOT_SUPPORTED, "scales in the mode %d are not covered", *to);
}

// -- What the library refuses ------------------------------------------------------------------

// Factors, result and sums: the rows of the documentation's table that are used.
bool types_fit(const Problem &p)
{
  if (p.c.type != p.out.type) return false;
  if (is_float8(p.a.type) && is_float8(p.b.type)) {
    return p.d.compute == CUBLAS_COMPUTE_32F && p.d.scale == CUDA_R_32F &&
           !(p.a.type == CUDA_R_8F_E5M2 && p.b.type == CUDA_R_8F_E5M2) &&
           (p.out.type == CUDA_R_32F || p.out.type == CUDA_R_16F || p.out.type == CUDA_R_16BF);
  }
  if (p.a.type != p.b.type) return false;
  if (p.d.compute == CUBLAS_COMPUTE_64F) {
    return p.d.scale == CUDA_R_64F && p.a.type == CUDA_R_64F && p.out.type == CUDA_R_64F;
  }
  if (p.d.compute == CUBLAS_COMPUTE_32I) {
    return p.d.scale == CUDA_R_32I && p.a.type == CUDA_R_8I && p.out.type == CUDA_R_32I;
  }
  if (p.d.scale != CUDA_R_32F) return false;
  if (p.d.compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
    return p.a.type == CUDA_R_32F && p.out.type == CUDA_R_32F;
  }
  if (p.d.compute != CUBLAS_COMPUTE_32F) return false;
  if (p.a.type == CUDA_R_32F) return p.out.type == CUDA_R_32F;
  return (p.a.type == CUDA_R_16F || p.a.type == CUDA_R_16BF) &&
         (p.out.type == p.a.type || p.out.type == CUDA_R_32F);
}

// Products of bytes with whole sums ("To use IMMA kernels", regular ordering): a transposed, b not;
// m, k and leading dimensions multiples of 4, addresses too (checked when it runs); no epilogue.
cublasStatus_t check_bytes(const Problem &p)
{
  if (p.a.type != CUDA_R_8I) return CUBLAS_STATUS_SUCCESS;
  if (!p.d.transa || p.d.transb) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "bytes, and not a transposed and b as it is");
  }
  if (p.m % 4 || p.k % 4 || p.a.ld % 4 || p.b.ld % 4 || p.out.ld % 4) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "bytes with sizes that are no multiples of 4");
  }
  if (p.d.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "an epilogue of whole sums");
  }
  return CUBLAS_STATUS_SUCCESS;
}

// "To use FP8 kernels": from 8.9 on, a transposed, b not, all sizes multiples of 16 bytes, which for
// us are 16 elements of every matrix; but n, as was seen on 9.0 (the belief f8-rows). Scales belong
// to these types alone; vectors of them to 9.0, both or none, and to cublasLt from 12.9 on.
cublasStatus_t check_float8(const Problem &p)
{
  if (!is_float8(p.a.type)) {
    return p.d.a_scale || p.d.b_scale || p.d.a_mode || p.d.b_mode
               ? wrong(CUBLAS_STATUS_INVALID_VALUE, "scales of types that have none")
               : CUBLAS_STATUS_SUCCESS;
  }
  if (capability() < 89) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "8-bit floats before compute capability 8.9");
  }
  if (!p.d.transa || p.d.transb) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "8-bit floats, and not a transposed and b as it is");
  }
  if (p.d.a_mode != p.d.b_mode || (p.d.a_mode && (!p.d.a_scale || !p.d.b_scale))) {
    return wrong(CUBLAS_STATUS_INVALID_VALUE, "a vector of scales for one factor");
  }
  if (p.d.a_mode && (p.d.a_scale % 16 || p.d.b_scale % 16)) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "vectors of scales that are not aligned");
  }
  if (p.d.a_mode && capability() < 90) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "vectors of scales before compute capability 9.0");
  }
  if (p.m % 16 || p.k % 16 || p.a.ld % 16 || p.b.ld % 16 || p.out.ld % 16) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "8-bit floats, sizes that are no multiples of 16");
  }
  if (p.d.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "an epilogue of 8-bit floats is not covered");
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_end(const Problem &p)
{
  switch (p.d.epilogue) {
  case CUBLASLT_EPILOGUE_DEFAULT:
    return CUBLAS_STATUS_SUCCESS;
  case CUBLASLT_EPILOGUE_RELU:
    break;
  case CUBLASLT_EPILOGUE_BIAS:
  case CUBLASLT_EPILOGUE_RELU_BIAS:
    if (!p.d.bias) return wrong(CUBLAS_STATUS_INVALID_VALUE, "a bias without a pointer");
    if (p.d.bias % 16) return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "a bias that is not aligned");
    if (p.d.bias_type != -1 && p.d.bias_type != p.out.type) {
      return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "a bias of another type than the result");
    }
    if (p.out.batch > 1) return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "a bias of a batch");
    break;
  default:
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "epilogue %d is not covered", p.d.epilogue);
  }
  if (p.out.type == CUDA_R_64F) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "an epilogue of a product in f64");
  }
  return CUBLAS_STATUS_SUCCESS;
}

// Results must not lie on each other; factors may be the same for the whole batch.
cublasStatus_t check_layout(const Layout &l, int32_t batch, bool is_result, const char *name)
{
  if (l.ld < static_cast<int64_t>(l.rows) || l.ld < 1) {
    return wrong(CUBLAS_STATUS_INVALID_VALUE, "%s has %llu rows and leading dimension %lld", name,
                 static_cast<unsigned long long>(l.rows), static_cast<long long>(l.ld));
  }
  if (l.batch != batch || l.batch < 1) {
    return wrong(CUBLAS_STATUS_INVALID_VALUE, "%s is %d matrices, not %d", name, l.batch, batch);
  }
  int64_t least = l.ld * static_cast<int64_t>(l.cols - 1) + static_cast<int64_t>(l.rows);
  if (batch > 1 && is_result && l.step < least) {
    return wrong(CUBLAS_STATUS_INVALID_VALUE, "%s has matrices that overlap", name);
  }
  return l.step < 0 ? wrong(CUBLAS_STATUS_INVALID_VALUE, "%s steps back", name)
                    : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t problem_of(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                          cublasLtMatrixLayout_t out, Problem *p)
{
  Desc *d = open<Desc>(desc, DESC);
  Layout *l[4] = { open<Layout>(a, LAYOUT), open<Layout>(b, LAYOUT), open<Layout>(c, LAYOUT),
                   open<Layout>(out, LAYOUT) };
  if (!d || !l[0] || !l[1] || !l[2] || !l[3]) {
    return wrong(CUBLAS_STATUS_INVALID_VALUE, "a descriptor or a layout that was not begun");
  }
  *p = { *d, *l[0], *l[1], *l[2], *l[3], 0, 0, 0 };
  p->m = d->transa ? p->a.cols : p->a.rows;
  p->k = d->transa ? p->a.rows : p->a.cols;
  p->n = d->transb ? p->b.rows : p->b.cols;
  if (!p->m || !p->n || !p->k) return wrong(CUBLAS_STATUS_INVALID_VALUE, "a size of 0");
  if ((d->transb ? p->b.cols : p->b.rows) != p->k || p->out.rows != p->m || p->out.cols != p->n) {
    return wrong(CUBLAS_STATUS_INVALID_VALUE, "sizes that do not agree");
  }
  if (p->c.type != p->out.type || p->c.rows != p->m || p->c.cols != p->n || p->c.ld != p->out.ld ||
      p->c.step != p->out.step) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "c and d of different layouts are not covered");
  }
  const char *names[] = { "a", "b", "c", "d" };
  for (int i = 0; i < 4; i++) {
    if (cublasStatus_t e = check_layout(*l[i], l[3]->batch, i >= 2, names[i])) return e;
  }
  if (!types_fit(*p)) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "types %d %d %d computed as %d", p->a.type, p->b.type,
                 p->out.type, d->compute);
  }
  if (cublasStatus_t e = check_bytes(*p)) return e;
  if (cublasStatus_t e = check_float8(*p)) return e;
  return check_end(*p);
}

// -- Algorithms ----------------------------------------------------------------------------------

Algo algo_of(uint32_t id)
{
  Algo x = { ALGO, id, CUBLASLT_REDUCTION_SCHEME_NONE, 1, 0 };
  if (id == RGSIM_BLAS_INPLACE) x.scheme = CUBLASLT_REDUCTION_SCHEME_INPLACE;
  if (id == RGSIM_BLAS_SPLIT) x.scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (x.scheme) x.workspace = SPLIT_BYTES;
  if (id == RGSIM_BLAS_WIDE) x.aligned = 16;
  return x;
}

// Shapes for which it has nothing at all, so that what comes then is tested too.
bool has_none(const Problem &p)
{
  return p.m == 13 && p.n == 13;
}

bool lies_aligned(const Layout &l, uint32_t to)
{
  size_t size = size_of(l.type);
  return static_cast<size_t>(l.ld) * size % to == 0 && static_cast<size_t>(l.step) * size % to == 0;
}

bool fits(const Algo &x, const Problem &p)
{
  return lies_aligned(p.a, x.aligned) && lies_aligned(p.b, x.aligned) &&
         lies_aligned(p.out, x.aligned);
}

cublasStatus_t check_algo(const cublasLtMatmulAlgo_t *algo, const Problem &p, Algo *out)
{
  memcpy(out, algo, sizeof *out);
  if (out->magic != ALGO || out->id >= RGSIM_BLAS_ALGOS) return CUBLAS_STATUS_INVALID_VALUE;
  Algo right = algo_of(out->id);
  if (memcmp(&right, out, sizeof right)) return CUBLAS_STATUS_INVALID_VALUE;
  return fits(*out, p) && !has_none(p) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

// -- Addresses -----------------------------------------------------------------------------------

bool is_aligned(const void *data, uint32_t to)
{
  return reinterpret_cast<uintptr_t>(data) % to == 0;
}

// Does all of a batch of matrices lie inside one allocation?
bool lies_inside(const void *data, const Layout &l)
{
  size_t last = static_cast<size_t>(l.step) * static_cast<size_t>(l.batch - 1) +
                static_cast<size_t>(l.ld) * (l.cols - 1) + l.rows;
  return in_device_memory(data, last * size_of(l.type));
}

bool is_there(const Run &r)
{
  const void *bias = reinterpret_cast<const void *>(r.p.d.bias);
  const Desc &d = r.p.d;
  const void *a_scale = reinterpret_cast<const void *>(d.a_scale);
  const void *b_scale = reinterpret_cast<const void *>(d.b_scale);
  if (a_scale && !in_device_memory(a_scale, d.a_mode ? 4 * r.p.m : 4)) return false;
  if (b_scale && !in_device_memory(b_scale, d.b_mode ? 4 * r.p.n : 4)) return false;
  return lies_inside(r.a, r.p.a) && lies_inside(r.b, r.p.b) && lies_inside(r.out, r.p.out) &&
         (!bias || in_device_memory(bias, r.p.m * size_of(r.p.out.type))) &&
         (!r.algo.workspace || in_device_memory(r.workspace, r.algo.workspace));
}

} // namespace

extern "C" {

size_t rgsim_blas_counted(int what)
{
  Lock lock;
  return counts[what];
}

void rgsim_blas_last(rgsim_blas_product *out)
{
  Lock lock;
  *out = last;
}

// -- Handles ---------------------------------------------------------------------------------------

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
  Lock lock;
  *out = nullptr;
  if (broken()) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (forbid_in_capture()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *out = reinterpret_cast<cublasLtHandle_t>(new Handle{ HANDLE, current_device() });
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
  const char *said = getenv("RG_SIM_BLAS_VERSION");
  return said ? strtoul(said, nullptr, 10) : CUBLAS_VERSION;
}

// -- Descriptors -----------------------------------------------------------------------------------

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale)
{
  if (size != sizeof *desc) return wrong(CUBLAS_STATUS_INVALID_VALUE, "a descriptor's size");
  memset(desc, 0, size);
  Desc d = {
    DESC, compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, -1, 0, 0, 0, 0, 0
  };
  memcpy(desc, &d, sizeof d);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *from, size_t bytes)
{
  Desc *d = open<Desc>(desc, DESC);
  if (!d) return wrong(CUBLAS_STATUS_INVALID_VALUE, "a descriptor that was not begun");
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return take(&d->transa, from, bytes, "transa");
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return take(&d->transb, from, bytes, "transb");
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return take(&d->epilogue, from, bytes, "the epilogue");
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return take(&d->bias, from, bytes, "the bias");
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return take(&d->bias_type, from, bytes, "the bias's type");
  case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
    return take(&d->a_scale, from, bytes, "the scale of a");
  case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
    return take(&d->b_scale, from, bytes, "the scale of b");
  case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
    return take_mode(&d->a_mode, from, bytes);
  case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
    return take_mode(&d->b_mode, from, bytes);
  default:
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "attribute %d of a product is not covered",
                 attribute);
  }
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t ld)
{
  if (size != sizeof *layout) return wrong(CUBLAS_STATUS_INVALID_VALUE, "a layout's size");
  memset(layout, 0, size);
  Layout l = {};
  l.magic = LAYOUT;
  l.type = type;
  l.rows = rows;
  l.cols = cols;
  l.ld = ld;
  l.batch = 1;
  memcpy(layout, &l, sizeof l);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *from, size_t bytes)
{
  Layout *l = open<Layout>(layout, LAYOUT);
  if (!l) return wrong(CUBLAS_STATUS_INVALID_VALUE, "a layout that was not begun");
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return take(&l->batch, from, bytes, "the number of matrices");
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return take(&l->step, from, bytes, "the step between matrices");
  default:
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "attribute %d of a layout is not covered", attribute);
  }
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     size_t size)
{
  if (size != sizeof *preference) return wrong(CUBLAS_STATUS_INVALID_VALUE, "a preference's size");
  memset(preference, 0, size);
  Preference p = { PREFERENCE, CUBLASLT_REDUCTION_SCHEME_MASK, 0, { 256, 256, 256, 256 } };
  memcpy(preference, &p, sizeof p);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *from, size_t bytes)
{
  Preference *p = open<Preference>(preference, PREFERENCE);
  if (!p) return wrong(CUBLAS_STATUS_INVALID_VALUE, "a preference that was not begun");
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return take(&p->workspace, from, bytes, "the workspace");
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return take(&p->schemes, from, bytes, "the mask of reductions");
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    return take(&p->aligned[0], from, bytes, "the alignment of a");
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    return take(&p->aligned[1], from, bytes, "the alignment of b");
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    return take(&p->aligned[2], from, bytes, "the alignment of c");
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return take(&p->aligned[3], from, bytes, "the alignment of d");
  default:
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "attribute %d of a preference is not covered",
                 attribute);
  }
}

// -- Algorithms ------------------------------------------------------------------------------------

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t result[], int *n)
{
  Lock lock;
  Problem p;
  Preference *pref = open<Preference>(preference, PREFERENCE);
  *n = 0;
  counts[RGSIM_BLAS_HEURISTICS]++;
  if (!open<Handle>(handle, HANDLE) || !pref || most < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t e = problem_of(desc, a, b, c, out, &p)) return e;
  if (has_none(p)) return CUBLAS_STATUS_NOT_SUPPORTED;
  uint32_t aligned = 256;
  for (uint32_t given : pref->aligned)
    aligned = given < aligned ? given : aligned;
  for (uint32_t id = 0; id < RGSIM_BLAS_ALGOS && *n < most; id++) {
    Algo x = algo_of(id);
    if (x.scheme & ~pref->schemes || x.workspace > pref->workspace) continue;
    if (x.aligned > aligned || !fits(x, p)) continue;
    cublasLtMatmulHeuristicResult_t &r = result[(*n)++];
    memset(&r, 0, sizeof r);
    memcpy(&r.algo, &x, sizeof x);
    r.workspaceSize = x.workspace;
    r.state = CUBLAS_STATUS_SUCCESS;
    r.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
  Lock lock;
  Problem p;
  Algo x;
  counts[RGSIM_BLAS_CHECKS]++;
  if (!open<Handle>(handle, HANDLE)) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t e = problem_of(desc, a, b, c, out, &p)) return e;
  if (cublasStatus_t e = check_algo(algo, p, &x)) return e;
  result->workspaceSize = x.workspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *to, size_t bytes, size_t *written)
{
  Algo x;
  memcpy(&x, algo, sizeof x);
  if (x.magic != ALGO) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME && attribute != CUBLASLT_ALGO_CONFIG_ID) {
    return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "attribute %d of an algorithm is not covered",
                 attribute);
  }
  if (bytes != sizeof(uint32_t)) {
    return wrong(CUBLAS_STATUS_INVALID_VALUE, "the size of an algorithm's attribute");
  }
  memcpy(to, attribute == CUBLASLT_ALGO_CONFIG_ID ? &x.id : &x.scheme, bytes);
  if (written) *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

// -- Products --------------------------------------------------------------------------------------

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *out,
                              cublasLtMatrixLayout_t out_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
  Lock lock;
  Run r = {};
  Handle *h = open<Handle>(handle, HANDLE);
  if (broken()) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (!h || !algo || !alpha || !beta) return wrong(CUBLAS_STATUS_INVALID_VALUE, "a null pointer");
  CUstream_st *s = stream_of(stream);
  if (!s || s->device != h->device || current_device() != h->device) {
    return wrong(CUBLAS_STATUS_INVALID_VALUE, "a handle of another device than the stream's");
  }
  if (cublasStatus_t e = problem_of(desc, a_layout, b_layout, c_layout, out_layout, &r.p)) return e;
  if (cublasStatus_t e = check_algo(algo, r.p, &r.algo)) return wrong(e, "an algorithm unfit");
  double plus = load(beta, r.p.d.scale, 0);
  r.alpha = load(alpha, r.p.d.scale, 0);
  if (plus != 0 || c != out) return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "beta is not covered");
  if (!is_aligned(a, r.algo.aligned) || !is_aligned(b, r.algo.aligned) ||
      !is_aligned(out, r.algo.aligned) || !is_aligned(workspace, 16) ||
      (r.p.a.type == CUDA_R_8I && !(is_aligned(a, 4) && is_aligned(b, 4) && is_aligned(out, 4))) ||
      (is_float8(r.p.a.type) && !(is_aligned(a, 16) && is_aligned(b, 16) && is_aligned(out, 16)))) {
    return wrong(CUBLAS_STATUS_INVALID_VALUE, "an address that is not aligned");
  }
  if (r.algo.workspace > workspace_bytes || (workspace_bytes && !workspace)) {
    return wrong(CUBLAS_STATUS_INVALID_VALUE, "too small a workspace");
  }
  if (r.algo.id == RGSIM_BLAS_BROKEN && r.p.k % 3 == 0) {
    counts[RGSIM_BLAS_FAILURES]++;
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  r.a = static_cast<const char *>(a);
  r.b = static_cast<const char *>(b);
  r.out = static_cast<char *>(out);
  r.workspace = workspace;
  if (!is_there(r)) {
    return wrong(CUBLAS_STATUS_INVALID_VALUE, "a matrix that is not inside device memory");
  }
  counts[RGSIM_BLAS_CALLS]++;
  last = { static_cast<int>(r.algo.id),
           r.p.d.epilogue,
           r.p.d.compute,
           r.p.d.transa,
           r.p.d.transb,
           r.p.out.batch,
           r.p.a.type,
           r.p.out.type,
           r.p.d.bias_type,
           static_cast<long long>(r.p.m),
           static_cast<long long>(r.p.n),
           static_cast<long long>(r.p.k),
           r.p.b.type,
           static_cast<int>((r.p.d.a_scale ? r.p.d.a_mode ? r.p.m : 1 : 0) +
                            (r.p.d.b_scale ? r.p.d.b_mode ? r.p.n : 1 : 0)) };
  std::function<void()> run = [r] {
    counts[RGSIM_BLAS_RUNS]++;
    if (!is_there(r)) {
      fault(cudaErrorIllegalAddress, "a product of memory that is gone");
      return;
    }
    compute(r);
  };
  if (!s->capture && is_watched()) { // a product is one kernel, of no name that a program could know
    run = watched({ RGSIM_ASKED_KERNEL, "simulated_cublasLt_product", dim3(1), dim3(128), 0, 0,
                    cudaMemcpyDefault, s->device, s },
                  run);
  }
  cudaError_t e = enqueue(stream, run);
  return e ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
