/* SPDX-License-Identifier: MIT */
/*
** oneDNN's matrix product: the only file that includes its headers.
**
** Written for 2.6 (Debian 12).  What 3.x changes is all here: descriptions of memory become opaque
** (dnnl_memory_desc_create_with_strides, _with_tag, _destroy, _get_blob for the packing number) and
** dnnl_matmul_desc_init with dnnl_primitive_desc_create becomes dnnl_matmul_primitive_desc_create.
**
** Scratch is in user mode, so that it comes from our allocator and is counted.
*/
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>

#include "cpu/dnnl.h"

enum { A, B, BIAS, C, SCRATCH, N_ARGS };

struct rg_dnnl {
  rg_dnnl_shape shape;
  rg_dnnl *next; /* in the thread's cache */
  dnnl_primitive_desc_t description;
  dnnl_primitive_t primitive;
  dnnl_stream_t stream;
  dnnl_memory_t memory[N_ARGS];
  int64_t scratch_bytes;
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

/* -- Descriptions ------------------------------------------------------------------------------ */

static dnnl_data_type_t type_of(int32_t dtype)
{
  return dtype == RG_BF16 ? dnnl_bf16 : dnnl_f32;
}

static rg_status describe(dnnl_memory_desc_t *out, int64_t rows, int64_t cols, int32_t dtype,
                          int64_t row, int64_t col)
{
  const dnnl_dims_t sizes = { rows, cols };
  const dnnl_dims_t strides = { row, col };

  if (row == 0 && col == 0) {
    DNNL_TRY("a description",
             dnnl_memory_desc_init_by_tag(out, 2, sizes, type_of(dtype), dnnl_format_tag_any));
  } else {
    DNNL_TRY("a description",
             dnnl_memory_desc_init_by_strides(out, 2, sizes, type_of(dtype), strides));
  }
  return RG_OK;
}

static rg_status append_act(dnnl_post_ops_t ops, int32_t act)
{
  static const dnnl_alg_kind_t kind[RG_ACT_COUNT] = { [RG_ACT_RELU] = dnnl_eltwise_relu,
                                                      [RG_ACT_GELU] = dnnl_eltwise_gelu_erf,
                                                      [RG_ACT_SILU] = dnnl_eltwise_swish,
                                                      [RG_ACT_TANH] = dnnl_eltwise_tanh,
                                                      [RG_ACT_SIGMOID] = dnnl_eltwise_logistic };

  if (act != RG_ACT_NONE) {
    DNNL_TRY("an activation", dnnl_post_ops_append_eltwise(ops, 1.0f, kind[act],
                                                           act == RG_ACT_SILU ? 1.0f : 0.0f, 0.0f));
  }
  return RG_OK;
}

static rg_status describe_primitive(rg_dnnl *self, dnnl_primitive_attr_t attr, dnnl_post_ops_t ops)
{
  const rg_dnnl_shape *s = &self->shape;
  dnnl_memory_desc_t a, b, bias, c;
  dnnl_matmul_desc_t matmul;

  RG_TRY(append_act(ops, s->act));
  DNNL_TRY("attributes", dnnl_primitive_attr_set_post_ops(attr, ops));
  DNNL_TRY("attributes", dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
  RG_TRY(describe(&a, s->m, s->k, s->dtype, s->a_row, s->a_col));
  RG_TRY(describe(&b, s->k, s->n, s->dtype, s->b_row, s->b_col));
  RG_TRY(describe(&bias, 1, s->n, RG_F32, s->n, 1));
  RG_TRY(describe(&c, s->m, s->n, s->c_dtype, s->c_row, 1));
  DNNL_TRY("a product", dnnl_matmul_desc_init(&matmul, &a, &b, s->has_bias ? &bias : NULL, &c));
  DNNL_TRY("a product",
           dnnl_primitive_desc_create(&self->description, &matmul, attr, engine, NULL));
  return RG_OK;
}

static const dnnl_memory_desc_t *md_of(const rg_dnnl *self, dnnl_query_t what)
{
  return dnnl_primitive_desc_query_md(self->description, what, 0);
}

/* FNV-1a over the description, which 2.x zero-fills. */
static uint64_t number_of(const dnnl_memory_desc_t *md)
{
  const unsigned char *byte = (const unsigned char *)md;
  uint64_t hash = 14695981039346656037u;

  for (size_t i = 0; i < sizeof(*md); i++) {
    hash = (hash ^ byte[i]) * 1099511628211u;
  }
  return hash;
}

/* -- Making ------------------------------------------------------------------------------------ */

static rg_status make_memories(rg_dnnl *self)
{
  static const dnnl_query_t query[N_ARGS] = { [A] = dnnl_query_src_md,
                                              [B] = dnnl_query_weights_md,
                                              [C] = dnnl_query_dst_md,
                                              [SCRATCH] = dnnl_query_scratchpad_md };

  for (int i = 0; i < N_ARGS; i++) {
    const dnnl_memory_desc_t *md =
        i == BIAS ? dnnl_primitive_desc_query_md(self->description, dnnl_query_weights_md, 1)
                  : md_of(self, query[i]);

    if (i != BIAS || self->shape.has_bias) {
      DNNL_TRY("a memory object",
               dnnl_memory_create(&self->memory[i], md, engine, DNNL_MEMORY_NONE));
    }
  }
  return RG_OK;
}

static rg_status make(rg_dnnl *self)
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
  RG_TRY(status);
  DNNL_TRY("a product", dnnl_primitive_create(&self->primitive, self->description));
  DNNL_TRY("a stream", dnnl_stream_create(&self->stream, engine, dnnl_stream_default_flags));
  self->scratch_bytes = (int64_t)dnnl_memory_desc_get_size(md_of(self, dnnl_query_scratchpad_md));
  self->packed_bytes = (int64_t)dnnl_memory_desc_get_size(md_of(self, dnnl_query_weights_md));
  self->packing = number_of(md_of(self, dnnl_query_weights_md));
  return make_memories(self);
}

rg_status rg_dnnl_new(const rg_dnnl_shape *shape, rg_dnnl **out)
{
  rg_dnnl *self;
  int threads = omp_get_max_threads();
  rg_status status;

  RG_TRY(engine_ready());
  self = rg_host_zeroed(sizeof(*self));
  if (self == NULL) {
    return rg_fail(RG_ENOMEM, "oneDNN: no memory for a product");
  }
  self->shape = *shape;
  omp_set_num_threads(shape->n_threads); /* a primitive is planned for the threads it sees */
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
  for (int i = 0; i < N_ARGS; i++) {
    dnnl_memory_destroy(self->memory[i]);
  }
  dnnl_stream_destroy(self->stream);
  dnnl_primitive_destroy(self->primitive);
  dnnl_primitive_desc_destroy(self->description);
  rg_host_free(self);
}

/* -- Cache of a thread ------------------------------------------------------------------------- */

enum { CACHE_MOST = 64 };

static _Thread_local rg_dnnl *cache;
static _Thread_local bool cache_watched;
static pthread_key_t cache_key;
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;

/* A thread ends: its cache goes with it. */
static void drop_cache(void *unused)
{
  (void)unused;
  while (cache != NULL) {
    rg_dnnl *next = cache->next;

    rg_dnnl_release(cache);
    cache = next;
  }
}

static void make_cache_key(void)
{
  pthread_key_create(&cache_key, drop_cache);
}

rg_status rg_dnnl_cached(const rg_dnnl_shape *shape, rg_dnnl **out)
{
  int n = 0;

  /* the last one used stands first */
  for (rg_dnnl **link = &cache; *link != NULL; link = &(*link)->next) {
    rg_dnnl *self = *link;

    if (memcmp(&self->shape, shape, sizeof(*shape)) == 0) {
      *link = self->next;
      self->next = cache;
      cache = self;
      *out = self;
      return RG_OK;
    }
    if (++n == CACHE_MOST) {
      *link = self->next;
      rg_dnnl_release(self);
      break;
    }
  }
  if (!cache_watched) {
    pthread_once(&cache_once, make_cache_key);
    pthread_setspecific(cache_key, &cache_watched);
    cache_watched = true;
  }
  RG_TRY(rg_dnnl_new(shape, out));
  (*out)->next = cache;
  cache = *out;
  return RG_OK;
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

uint64_t rg_dnnl_packing(const rg_dnnl *self)
{
  return self->packing;
}

static rg_status reorder(const rg_dnnl *self, dnnl_memory_t from, dnnl_memory_t to)
{
  dnnl_primitive_desc_t description = NULL;
  dnnl_primitive_t primitive = NULL;
  dnnl_exec_arg_t args[2] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to } };
  const dnnl_memory_desc_t *md_from, *md_to;
  dnnl_status_t status;

  DNNL_TRY("packing", dnnl_memory_get_memory_desc(from, &md_from));
  DNNL_TRY("packing", dnnl_memory_get_memory_desc(to, &md_to));
  DNNL_TRY("packing",
           dnnl_reorder_primitive_desc_create(&description, md_from, engine, md_to, engine, NULL));
  status = dnnl_primitive_create(&primitive, description);
  if (status == dnnl_success) {
    status = dnnl_primitive_execute(primitive, self->stream, 2, args);
  }
  if (status == dnnl_success) {
    status = dnnl_stream_wait(self->stream);
  }
  dnnl_primitive_destroy(primitive);
  dnnl_primitive_desc_destroy(description);
  return status == dnnl_success ? RG_OK : failed("packing", status);
}

rg_status rg_dnnl_pack(const rg_dnnl *self, const void *b, int64_t b_row, int64_t b_col,
                       void *packed)
{
  dnnl_memory_desc_t md;
  dnnl_memory_t from = NULL;
  dnnl_memory_t to = NULL;
  dnnl_status_t made;
  rg_status status;

  RG_TRY(describe(&md, self->shape.k, self->shape.n, self->shape.dtype, b_row, b_col));
  made = dnnl_memory_create(&from, &md, engine, (void *)(uintptr_t)b);
  if (made == dnnl_success) {
    made = dnnl_memory_create(&to, md_of(self, dnnl_query_weights_md), engine, packed);
  }
  status = made == dnnl_success ? reorder(self, from, to) : failed("a memory object", made);
  dnnl_memory_destroy(from);
  dnnl_memory_destroy(to);
  return status;
}

rg_status rg_dnnl_run(rg_dnnl *self, const void *a, const void *b, const void *bias, void *c,
                      void *scratch)
{
  const void *data[N_ARGS] = { a, b, bias, c, scratch };
  static const int number[N_ARGS] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST,
                                      DNNL_ARG_SCRATCHPAD };
  dnnl_exec_arg_t args[N_ARGS];
  int n = 0;
  int threads = omp_get_max_threads();
  dnnl_status_t status;

  for (int i = 0; i < N_ARGS; i++) {
    if (self->memory[i] != NULL) {
      DNNL_TRY("a memory object",
               dnnl_memory_set_data_handle(self->memory[i], (void *)(uintptr_t)data[i]));
      args[n++] = (dnnl_exec_arg_t){ number[i], self->memory[i] };
    }
  }
  if (threads != self->shape.n_threads) {
    omp_set_num_threads(self->shape.n_threads);
  }
  status = dnnl_primitive_execute(self->primitive, self->stream, n, args);
  if (status == dnnl_success) {
    status = dnnl_stream_wait(self->stream);
  }
  if (threads != self->shape.n_threads) {
    omp_set_num_threads(threads);
  }
  return status == dnnl_success ? RG_OK : failed("a product", status);
}
