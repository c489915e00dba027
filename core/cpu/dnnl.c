/* SPDX-License-Identifier: MIT */
/*
** oneDNN: the only file that includes its headers.
**
** Written for 2.6 (Debian 12).  What 3.x changes is all here: descriptions of memory become opaque
** (dnnl_memory_desc_create_with_strides, _with_tag, _destroy, _get_blob for the packing number,
** dnnl_memory_desc_equal on pointers), dnnl_..._desc_init and dnnl_primitive_desc_create one call.
** Scratch is in user mode, so that it comes from our allocator and is counted.
*/
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cpu/dnnl.h"

enum { N = RG_DNNL_ARRAYS };

/* The reorder between the layout of an array and that of the primitive. */
typedef struct conversion {
  dnnl_primitive_desc_t description;
  dnnl_primitive_t primitive; /* NULL: none is needed */
  dnnl_memory_t plain;
  dnnl_memory_t scratch;
  int64_t bytes; /* of the array as the primitive sees it */
  int64_t scratch_bytes;
} conversion;

struct rg_dnnl {
  rg_dnnl_spec spec;
  bool leaves_act; /* the caller applies the activation */
  dnnl_primitive_desc_t description;
  dnnl_primitive_t primitive;
  dnnl_stream_t stream;
  dnnl_memory_t memory[N];
  dnnl_memory_t scratch;
  conversion way[N];
  conversion before;     /* what lies in dst, where it is added to and converted */
  int64_t own_bytes;     /* scratch of the primitive itself */
  int64_t scratch_bytes; /* of all */
  int64_t packed_bytes;
  uint64_t packing;
};

static rg_status failed(const char *what, dnnl_status_t status)
{
  if (status == dnnl_out_of_memory) {
    return rg_fail(RG_ENOMEM, "oneDNN: no memory for %s", what);
  }
  return rg_fail(status == dnnl_unimplemented ? RG_ENOSUP : RG_EBUG, "oneDNN: %s failed (%d)", what,
                 (int)status);
}

#define DNNL_TRY(what, expression)             \
  do {                                         \
    dnnl_status_t dnnl_status_ = (expression); \
    if (dnnl_status_ != dnnl_success) {        \
      return failed(what, dnnl_status_);       \
    }                                          \
  } while (0)

/* -- The engine, one for the process ------------------------------------------------------- */

static dnnl_engine_t engine;
static dnnl_status_t engine_status;
static pthread_once_t engine_once = PTHREAD_ONCE_INIT;

static void make_engine(void)
{
  engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
}

static rg_status engine_ready(void)
{
  pthread_once(&engine_once, make_engine);
  return engine_status == dnnl_success ? RG_OK : failed("its CPU engine", engine_status);
}

const char *rg_dnnl_version(void)
{
  static _Thread_local char text[40];
  dnnl_version_t v = *dnnl_version();

  return snprintf(text, sizeof(text), "%d.%d.%d", v.major, v.minor, v.patch) > 0 ? text : "";
}

bool rg_dnnl_uses(int32_t set)
{
  static const unsigned sets[] = { dnnl_cpu_isa_avx512_core, dnnl_cpu_isa_avx512_core_vnni,
                                   dnnl_cpu_isa_avx512_core_bf16, dnnl_cpu_isa_avx512_core_amx };
  unsigned isa = (unsigned)dnnl_get_effective_cpu_isa(); /* of what each includes, a bit each */

  return (isa & sets[set]) == sets[set];
}

/* -- Descriptions ------------------------------------------------------------------------------ */

static dnnl_data_type_t type_of(int32_t dtype)
{
  static const dnnl_data_type_t types[RG_DTYPE_COUNT] = {
    [RG_F32] = dnnl_f32, [RG_BF16] = dnnl_bf16, [RG_I8] = dnnl_s8, [RG_I32] = dnnl_s32
  };

  return types[dtype];
}

/* Which arrays a primitive writes. */
static bool is_result(int32_t kind, int i)
{
  switch (kind) {
  case RG_DNNL_CONV_DATA:
    return i == RG_DNNL_SRC;
  case RG_DNNL_CONV_WEIGHT:
    return i == RG_DNNL_WEIGHT || i == RG_DNNL_BIAS;
  default:
    return i == RG_DNNL_DST;
  }
}

/* oneDNN's name of array i: results of gradients have their own. */
static int number_of(int32_t kind, int i)
{
  static const int plain[N] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST };
  static const int diff[N] = { DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS,
                               DNNL_ARG_DIFF_DST };
  bool is_gradient = kind == RG_DNNL_CONV_DATA || kind == RG_DNNL_CONV_WEIGHT;

  return is_gradient && (is_result(kind, i) || i == RG_DNNL_DST) ? diff[i] : plain[i];
}

/* oneDNN's lists of sizes are longer than ours. */
static void dims_of(dnnl_dims_t out, const int64_t *list, int32_t n)
{
  memcpy(out, list, (size_t)n * sizeof(*list));
}

/* In the layout of the array. */
static rg_status describe(dnnl_memory_desc_t *out, const rg_dnnl_array *array)
{
  dnnl_dims_t size = { 0 };
  dnnl_dims_t stride = { 0 };

  dims_of(size, array->size, array->ndim);
  dims_of(stride, array->stride, array->ndim);
  DNNL_TRY("a description",
           dnnl_memory_desc_init_by_strides(out, array->ndim, size, type_of(array->dtype), stride));
  return RG_OK;
}

/* As the primitive is to see it; what it chooses itself is asked for afterwards. */
static rg_status describe_inner(dnnl_memory_desc_t *out, const rg_dnnl_array *array)
{
  if (array->form == RG_DNNL_AS_IS) {
    return describe(out, array);
  }
  dnnl_dims_t size = { 0 };

  dims_of(size, array->size, array->ndim);
  DNNL_TRY("a description",
           dnnl_memory_desc_init_by_tag(out, array->ndim, size, type_of(array->inner),
                                        dnnl_format_tag_any));
  return RG_OK;
}

static rg_status append_act(dnnl_post_ops_t ops, int32_t act)
{
  static const dnnl_alg_kind_t kind[RG_ACT_COUNT] = {
    [RG_ACT_RELU] = dnnl_eltwise_relu,        [RG_ACT_GELU] = dnnl_eltwise_gelu_erf,
    [RG_ACT_SILU] = dnnl_eltwise_swish,       [RG_ACT_TANH] = dnnl_eltwise_tanh,
    [RG_ACT_SIGMOID] = dnnl_eltwise_logistic, [RG_ACT_RELU6] = dnnl_eltwise_clip
  };
  static const float alpha[RG_ACT_COUNT] = { [RG_ACT_SILU] = 1 };
  static const float beta[RG_ACT_COUNT] = { [RG_ACT_RELU6] = 6 };

  if (act != RG_ACT_NONE) {
    DNNL_TRY("an activation",
             dnnl_post_ops_append_eltwise(ops, 1.0f, kind[act], alpha[act], beta[act]));
  }
  return RG_OK;
}

static rg_status describe_matmul(rg_dnnl *self, const dnnl_memory_desc_t *md,
                                 dnnl_primitive_attr_t attr)
{
  bool has_bias = self->spec.array[RG_DNNL_BIAS].ndim > 0;
  dnnl_matmul_desc_t matmul;

  DNNL_TRY("a product",
           dnnl_matmul_desc_init(&matmul, &md[RG_DNNL_SRC], &md[RG_DNNL_WEIGHT],
                                 has_bias ? &md[RG_DNNL_BIAS] : NULL, &md[RG_DNNL_DST]));
  DNNL_TRY("a product",
           dnnl_primitive_desc_create(&self->description, &matmul, attr, engine, NULL));
  return RG_OK;
}

/* A gradient is made with the convolution it belongs to as a hint. */
static rg_status describe_conv(rg_dnnl *self, const dnnl_memory_desc_t *md,
                               dnnl_primitive_attr_t attr)
{
  const rg_dnnl_spec *s = &self->spec;
  const dnnl_dims_t holes = { s->dilation[0] - 1, s->dilation[1] - 1 };
  const dnnl_dims_t stride = { s->stride[0], s->stride[1] };
  const dnnl_dims_t low = { s->pad_low[0], s->pad_low[1] };
  const dnnl_dims_t high = { s->pad_high[0], s->pad_high[1] };
  const dnnl_memory_desc_t *bias = s->array[RG_DNNL_BIAS].ndim > 0 ? &md[RG_DNNL_BIAS] : NULL;
  dnnl_primitive_desc_t forward = NULL;
  dnnl_convolution_desc_t conv;
  dnnl_status_t status;

  DNNL_TRY("a convolution",
           dnnl_dilated_convolution_forward_desc_init(
               &conv, s->kind == RG_DNNL_CONV ? dnnl_forward_inference : dnnl_forward_training,
               dnnl_convolution_direct, &md[RG_DNNL_SRC], &md[RG_DNNL_WEIGHT], bias,
               &md[RG_DNNL_DST], stride, holes, low, high));
  DNNL_TRY("a convolution", dnnl_primitive_desc_create(&forward, &conv, attr, engine, NULL));
  if (s->kind == RG_DNNL_CONV) {
    self->description = forward;
    return RG_OK;
  }
  if (s->kind == RG_DNNL_CONV_DATA) {
    status = dnnl_dilated_convolution_backward_data_desc_init(
        &conv, dnnl_convolution_direct, &md[RG_DNNL_SRC], &md[RG_DNNL_WEIGHT], &md[RG_DNNL_DST],
        stride, holes, low, high);
  } else {
    status = dnnl_dilated_convolution_backward_weights_desc_init(
        &conv, dnnl_convolution_direct, &md[RG_DNNL_SRC], &md[RG_DNNL_WEIGHT], bias,
        &md[RG_DNNL_DST], stride, holes, low, high);
  }
  if (status == dnnl_success) {
    status = dnnl_primitive_desc_create(&self->description, &conv, attr, engine, forward);
  }
  dnnl_primitive_desc_destroy(forward);
  return status == dnnl_success ? RG_OK : failed("a convolution's gradient", status);
}

static rg_status describe_primitive(rg_dnnl *self, dnnl_primitive_attr_t attr, dnnl_post_ops_t ops)
{
  dnnl_memory_desc_t md[N] = { 0 };

  if (self->spec.sum != 0) {
    DNNL_TRY("a sum", dnnl_post_ops_append_sum(ops, 1.0f));
  }
  RG_TRY(append_act(ops, self->leaves_act ? RG_ACT_NONE : self->spec.act));
  DNNL_TRY("attributes", dnnl_primitive_attr_set_post_ops(attr, ops));
  DNNL_TRY("attributes", dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
  for (int i = 0; i < N; i++) {
    RG_TRY(rg_dnnl_counts(&self->spec.array[i]));
    if (self->spec.array[i].ndim > 0) {
      RG_TRY(describe_inner(&md[i], &self->spec.array[i]));
    }
  }
  return self->spec.kind == RG_DNNL_MATMUL ? describe_matmul(self, md, attr)
                                           : describe_conv(self, md, attr);
}

/* Array i as the primitive sees it. */
static const dnnl_memory_desc_t *md_of(const rg_dnnl *self, int i)
{
  return dnnl_primitive_desc_query_md(self->description, dnnl_query_exec_arg_md,
                                      number_of(self->spec.kind, i));
}

/* FNV-1a over the description, which 2.x zero-fills. */
static uint64_t hash_of(const dnnl_memory_desc_t *md)
{
  const unsigned char *byte = (const unsigned char *)md;
  uint64_t hash = 14695981039346656037u;

  for (size_t i = 0; i < sizeof(*md); i++) {
    hash = (hash ^ byte[i]) * 1099511628211u;
  }
  return hash;
}

/* -- Making ------------------------------------------------------------------------------------ */

static int64_t scratch_of(const_dnnl_primitive_desc_t description)
{
  return rg_round_up((int64_t)dnnl_memory_desc_get_size(
                         dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0)),
                     64);
}

static rg_status make_memory(const_dnnl_primitive_desc_t description, dnnl_memory_t *out)
{
  DNNL_TRY("a memory object",
           dnnl_memory_create(
               out, dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0), engine,
               DNNL_MEMORY_NONE));
  return RG_OK;
}

/* A reorder between two descriptions. */
static rg_status make_reorder(conversion *way, const dnnl_memory_desc_t *from,
                              const dnnl_memory_desc_t *to)
{
  dnnl_primitive_attr_t attr = NULL;
  dnnl_status_t status = dnnl_primitive_attr_create(&attr);

  if (status == dnnl_success) {
    status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  }
  if (status == dnnl_success) {
    status = dnnl_reorder_primitive_desc_create(&way->description, from, engine, to, engine, attr);
  }
  if (status == dnnl_success) {
    status = dnnl_primitive_create(&way->primitive, way->description);
  }
  dnnl_primitive_attr_destroy(attr);
  if (status != dnnl_success) {
    return failed("a conversion", status);
  }
  way->scratch_bytes = scratch_of(way->description);
  return make_memory(way->description, &way->scratch);
}

static void end_conversion(conversion *way)
{
  dnnl_memory_destroy(way->plain);
  dnnl_memory_destroy(way->scratch);
  dnnl_primitive_destroy(way->primitive);
  dnnl_primitive_desc_destroy(way->description);
}

static rg_status make_conversion(rg_dnnl *self, int i)
{
  const rg_dnnl_array *array = &self->spec.array[i];
  const dnnl_memory_desc_t *inner = md_of(self, i);
  conversion *way = &self->way[i];
  dnnl_memory_desc_t plain;

  if (array->form != RG_DNNL_CONVERTED) {
    return RG_OK;
  }
  RG_TRY(describe(&plain, array));
  if (dnnl_memory_desc_equal(&plain, inner)) {
    return RG_OK;
  }
  way->bytes = rg_round_up((int64_t)dnnl_memory_desc_get_size(inner), 64);
  DNNL_TRY("a memory object", dnnl_memory_create(&way->plain, &plain, engine, DNNL_MEMORY_NONE));
  if (self->spec.sum != 0 && i == RG_DNNL_DST) {
    RG_TRY(make_reorder(&self->before, &plain, inner));
  }
  return is_result(self->spec.kind, i) ? make_reorder(way, inner, &plain)
                                       : make_reorder(way, &plain, inner);
}

static rg_status make_memories(rg_dnnl *self)
{
  self->scratch_bytes = self->own_bytes = scratch_of(self->description);
  RG_TRY(make_memory(self->description, &self->scratch));
  for (int i = 0; i < N; i++) {
    if (self->spec.array[i].ndim > 0) {
      DNNL_TRY("a memory object",
               dnnl_memory_create(&self->memory[i], md_of(self, i), engine, DNNL_MEMORY_NONE));
      RG_TRY(make_conversion(self, i));
      self->scratch_bytes += self->way[i].bytes + self->way[i].scratch_bytes;
    }
  }
  self->scratch_bytes += self->before.scratch_bytes;
  return RG_OK;
}

static rg_status describe_all(rg_dnnl *self)
{
  dnnl_primitive_attr_t attr = NULL;
  dnnl_post_ops_t ops = NULL;
  rg_status status = RG_OK;

  if (dnnl_primitive_attr_create(&attr) != dnnl_success ||
      dnnl_post_ops_create(&ops) != dnnl_success) {
    status = failed("attributes", dnnl_out_of_memory);
  } else {
    status = describe_primitive(self, attr, ops);
  }
  dnnl_post_ops_destroy(ops);
  dnnl_primitive_attr_destroy(attr);
  return status;
}

/* What the library calls the kernel: "jit:avx512_core", "gemm:jit", "ref:any". */
static const char *kernel_of(const rg_dnnl *self)
{
  const char *name = "";

  return dnnl_primitive_desc_query(self->description, dnnl_query_impl_info_str, 0, (void *)&name) ==
                 dnnl_success
             ? name
             : "";
}

bool rg_dnnl_is_plain_code(const rg_dnnl *self)
{
  return strncmp(kernel_of(self), "ref", 3) == 0;
}

bool rg_dnnl_multiplies_padding(const rg_dnnl *self)
{
  return strstr(kernel_of(self), "gemm:") != NULL;
}

/* Convolutions as matrix products (small groups, channels first) apply an activation one element
** at a time, some 5 ns each: 18 times what the product takes. */
static bool acts_slowly(const rg_dnnl *self)
{
  return self->spec.kind == RG_DNNL_CONV && self->spec.act != RG_ACT_NONE &&
         self->spec.array[RG_DNNL_DST].dtype == RG_F32 && rg_dnnl_multiplies_padding(self);
}

static rg_status make(rg_dnnl *self)
{
  RG_TRY(describe_all(self));
  if (acts_slowly(self)) {
    dnnl_primitive_desc_destroy(self->description);
    self->description = NULL;
    self->leaves_act = true;
    RG_TRY(describe_all(self));
  }
  DNNL_TRY("a primitive", dnnl_primitive_create(&self->primitive, self->description));
  DNNL_TRY("a stream", dnnl_stream_create(&self->stream, engine, dnnl_stream_default_flags));
  self->packed_bytes = (int64_t)dnnl_memory_desc_get_size(md_of(self, RG_DNNL_WEIGHT));
  self->packing = hash_of(md_of(self, RG_DNNL_WEIGHT));
  return make_memories(self);
}

rg_status rg_dnnl_new(const rg_dnnl_spec *spec, rg_dnnl **out)
{
  rg_dnnl *self;
  int threads = omp_get_max_threads();
  rg_status status;

  RG_TRY(engine_ready());
  RG_TRY(rg_signals_ready(spec->n_threads));
  self = rg_host_zeroed(sizeof(*self));
  if (self == NULL) {
    return rg_fail(RG_ENOMEM, "oneDNN: no memory for a primitive");
  }
  self->spec = *spec;
  omp_set_num_threads(spec->n_threads); /* a primitive is planned for the threads it sees */
  status = make(self);
  omp_set_num_threads(threads);
  if (status != RG_OK) {
    rg_dnnl_release(self);
    return status;
  }
  *out = self;
  return RG_OK;
}

void rg_dnnl_release(rg_dnnl *self)
{
  if (self == NULL) {
    return;
  }
  for (int i = 0; i < N; i++) {
    dnnl_memory_destroy(self->memory[i]);
    end_conversion(&self->way[i]);
  }
  end_conversion(&self->before);
  dnnl_memory_destroy(self->scratch);
  dnnl_stream_destroy(self->stream);
  dnnl_primitive_destroy(self->primitive);
  dnnl_primitive_desc_destroy(self->description);
  rg_host_free(self);
}

/* -- Using ------------------------------------------------------------------------------------- */

int64_t rg_dnnl_scratch_bytes(const rg_dnnl *self)
{
  return self->scratch_bytes;
}

int64_t rg_dnnl_packed_bytes(const rg_dnnl *self)
{
  return self->packed_bytes;
}

int32_t rg_dnnl_packed_dtype(const rg_dnnl *self)
{
  return self->spec.array[RG_DNNL_WEIGHT].inner;
}

uint64_t rg_dnnl_packing(const rg_dnnl *self)
{
  return self->packing;
}

bool rg_dnnl_leaves_act(const rg_dnnl *self)
{
  return self->leaves_act;
}

/* Run a conversion from one memory object to another. */
static rg_status convert(const rg_dnnl *self, const conversion *way, dnnl_memory_t from,
                         dnnl_memory_t to, void *scratch)
{
  const dnnl_exec_arg_t args[3] = { { DNNL_ARG_FROM, from },
                                    { DNNL_ARG_TO, to },
                                    { DNNL_ARG_SCRATCHPAD, way->scratch } };

  DNNL_TRY("a memory object", dnnl_memory_set_data_handle(way->scratch, scratch));
  DNNL_TRY("a conversion", dnnl_primitive_execute(way->primitive, self->stream, 3, args));
  return RG_OK;
}

/* Made for once: a weight is packed when it has changed. */
static rg_status pack(const rg_dnnl *self, conversion *way, const rg_dnnl_array *plain,
                      const void *from, void *packed)
{
  dnnl_memory_desc_t md;
  dnnl_memory_t to = NULL;
  rg_block scratch = { 0 };
  rg_status status;

  RG_TRY(describe(&md, plain));
  RG_TRY(make_reorder(way, &md, md_of(self, RG_DNNL_WEIGHT)));
  DNNL_TRY("a memory object",
           dnnl_memory_create(&way->plain, &md, engine, (void *)(uintptr_t)from));
  DNNL_TRY("a memory object", dnnl_memory_create(&to, md_of(self, RG_DNNL_WEIGHT), engine, packed));
  status = rg_block_alloc(RG_CPU, way->scratch_bytes + 64, &scratch);
  if (status == RG_OK) {
    status = convert(self, way, way->plain, to, scratch.data);
    if (dnnl_stream_wait(self->stream) != dnnl_success && status == RG_OK) {
      status = rg_fail(RG_EBUG, "oneDNN: packing failed");
    }
    rg_block_free(&scratch);
  }
  dnnl_memory_destroy(to);
  return status;
}

rg_status rg_dnnl_pack(const rg_dnnl *self, const rg_dnnl_array *plain, const void *from,
                       void *packed)
{
  conversion way = { 0 };
  rg_status status = pack(self, &way, plain, from, packed);

  end_conversion(&way);
  return status;
}

/* Scratch is cut in order: the primitive's, then each array's copy and its conversion's own. */
static rg_status execute(rg_dnnl *self, void *const data[N], char *scratch)
{
  dnnl_exec_arg_t args[N + 1] = { { DNNL_ARG_SCRATCHPAD, self->scratch } };
  void *room[N] = { 0 };
  int n = 1;

  DNNL_TRY("a memory object", dnnl_memory_set_data_handle(self->scratch, scratch));
  scratch += self->own_bytes;
  for (int i = 0; i < N; i++) {
    const conversion *way = &self->way[i];
    bool converts = way->primitive != NULL;

    if (self->memory[i] == NULL) {
      continue;
    }
    DNNL_TRY("a memory object",
             dnnl_memory_set_data_handle(self->memory[i], converts ? scratch : data[i]));
    if (converts) {
      DNNL_TRY("a memory object", dnnl_memory_set_data_handle(way->plain, data[i]));
      room[i] = scratch + way->bytes;
      if (!is_result(self->spec.kind, i)) {
        RG_TRY(convert(self, way, way->plain, self->memory[i], room[i]));
      }
      scratch += way->bytes + way->scratch_bytes;
      if (i == RG_DNNL_DST && self->before.primitive != NULL) { /* the last array */
        RG_TRY(convert(self, &self->before, way->plain, self->memory[i], scratch));
      }
    }
    args[n++] = (dnnl_exec_arg_t){ number_of(self->spec.kind, i), self->memory[i] };
  }
  DNNL_TRY("a primitive", dnnl_primitive_execute(self->primitive, self->stream, n, args));
  for (int i = 0; i < N; i++) {
    if (self->way[i].primitive != NULL && is_result(self->spec.kind, i)) {
      RG_TRY(convert(self, &self->way[i], self->memory[i], self->way[i].plain, room[i]));
    }
  }
  return RG_OK;
}

rg_status rg_dnnl_run(rg_dnnl *self, void *const data[RG_DNNL_ARRAYS], void *scratch)
{
  int threads = omp_get_max_threads();
  rg_status status;

  if (threads != self->spec.n_threads) {
    omp_set_num_threads(self->spec.n_threads);
  }
  status = execute(self, data, scratch);
  if (dnnl_stream_wait(self->stream) != dnnl_success && status == RG_OK) {
    status = rg_fail(RG_EBUG, "oneDNN: a primitive failed");
  }
  if (threads != self->spec.n_threads) {
    omp_set_num_threads(threads);
  }
  return status;
}
