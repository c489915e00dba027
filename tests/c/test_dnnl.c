/* SPDX-License-Identifier: MIT */
/*
** oneDNN: what it is asked for is given back, and it plans and works with the threads that a spec
** names.  Its functions that make and end something are counted here on their way to it.
*/
#include <dlfcn.h>
#include <omp.h>
#include <string.h>

#include "cpu/dnnl.h"
#include "ridge.h"
#include "tap.h"

/* -- On their way to oneDNN ------------------------------------------------------------------ */

enum { MEMORY, PRIMITIVE, DESCRIPTION, STREAM, ATTR, POST_OPS, KINDS };

static const char *const kinds[KINDS] = { "memory objects", "primitives", "descriptions",
                                          "streams",        "attributes", "lists of operations" };
static int made[KINDS], ended[KINDS];
static int planned, worked; /* threads as a primitive is made, and as one is run; -1: never */

/* The library's own function. */
static void find(void *function, const char *name)
{
  void *found = dlsym(RTLD_NEXT, name);

  if (found == NULL) {
    tap_bail(name);
  }
  memcpy(function, &found, sizeof(found));
}

static int counted(int status, int kind)
{
  made[kind] += status == 0;
  return status;
}

#define MAKES(kind, name, params, args) \
  int name params;                      \
  int name params                       \
  {                                     \
    int(*next) params;                  \
                                        \
    find(&next, #name);                 \
    return counted(next args, kind);    \
  }

#define ENDS(kind, name)       \
  int name(void *it);          \
  int name(void *it)           \
  {                            \
    int (*next)(void *);       \
                               \
    find(&next, #name);        \
    ended[kind] += it != NULL; \
    return next(it);           \
  }

MAKES(MEMORY, dnnl_memory_create, (void **out, const void *md, void *engine, void *handle),
      (out, md, engine, handle))
MAKES(DESCRIPTION, dnnl_primitive_desc_create,
      (void **out, const void *op, const void *attr, void *engine, const void *hint),
      (out, op, attr, engine, hint))
MAKES(DESCRIPTION, dnnl_reorder_primitive_desc_create,
      (void **out, const void *from, void *from_engine, const void *to, void *to_engine,
       const void *attr),
      (out, from, from_engine, to, to_engine, attr))
MAKES(STREAM, dnnl_stream_create, (void **out, void *engine, unsigned flags), (out, engine, flags))
MAKES(ATTR, dnnl_primitive_attr_create, (void **out), (out))
MAKES(POST_OPS, dnnl_post_ops_create, (void **out), (out))
ENDS(MEMORY, dnnl_memory_destroy)
ENDS(PRIMITIVE, dnnl_primitive_destroy)
ENDS(DESCRIPTION, dnnl_primitive_desc_destroy)
ENDS(STREAM, dnnl_stream_destroy)
ENDS(ATTR, dnnl_primitive_attr_destroy)
ENDS(POST_OPS, dnnl_post_ops_destroy)

int dnnl_primitive_create(void **out, const void *description);
int dnnl_primitive_create(void **out, const void *description)
{
  int (*next)(void **, const void *);

  find(&next, "dnnl_primitive_create");
  planned = omp_get_max_threads();
  return counted(next(out, description), PRIMITIVE);
}

int dnnl_primitive_execute(const void *primitive, void *stream, int n, const void *args);
int dnnl_primitive_execute(const void *primitive, void *stream, int n, const void *args)
{
  int (*next)(const void *, void *, int, const void *);

  find(&next, "dnnl_primitive_execute");
  worked = omp_get_max_threads();
  return next(primitive, stream, n, args);
}

static void begin(void)
{
  memset(made, 0, sizeof(made));
  memset(ended, 0, sizeof(ended));
  planned = worked = -1;
}

static void check_ended(const char *what)
{
  char text[200];

  for (int i = 0; i < KINDS; i++) {
    snprintf(text, sizeof(text), "%s: as many %s are ended as were made", what, kinds[i]);
    is_int(ended[i], made[i], text);
  }
}

/* -- Specs ----------------------------------------------------------------------------------- */

enum { MOST = 4096 };

static float data_of[RG_DNNL_ARRAYS][MOST], packed[4 * MOST];
static _Alignas(64) char scratch[1 << 20];

/* An array of so many axes, side by side, the last but one fastest where it is transposed. */
static rg_dnnl_array array_of(const int64_t *size, int32_t ndim, int32_t form, bool transposed)
{
  rg_dnnl_array a = { .ndim = ndim, .form = form, .dtype = RG_F32, .inner = RG_F32 };
  int64_t step = 1;

  for (int32_t i = ndim - 1; i >= 0; i--) {
    a.size[i] = size[i];
    a.stride[i] = step;
    step *= size[i];
  }
  if (transposed) {
    a.stride[ndim - 2] = 1;
    a.stride[ndim - 1] = size[ndim - 2];
  }
  return a;
}

static rg_dnnl_spec product_of(int32_t weight_form)
{
  rg_dnnl_spec s;

  memset(&s, 0, sizeof(s));
  s.kind = RG_DNNL_MATMUL;
  s.n_threads = 1;
  s.array[RG_DNNL_SRC] = array_of((int64_t[]){ 12, 20 }, 2, RG_DNNL_CONVERTED, true);
  s.array[RG_DNNL_WEIGHT] = array_of((int64_t[]){ 20, 16 }, 2, weight_form, true);
  s.array[RG_DNNL_BIAS] = array_of((int64_t[]){ 1, 16 }, 2, RG_DNNL_AS_IS, false);
  s.array[RG_DNNL_DST] = array_of((int64_t[]){ 12, 16 }, 2, RG_DNNL_AS_IS, false);
  return s;
}

static rg_dnnl_spec conv_of(int32_t kind, bool grouped, int32_t act, int32_t sum)
{
  const int64_t images[] = { 2, 16, 7, 7 };
  const int64_t whole[] = { 16, 16, 3, 3 }, groups[] = { 8, 2, 2, 3, 3 };
  rg_dnnl_spec s;

  memset(&s, 0, sizeof(s));
  s.kind = kind;
  s.act = act;
  s.sum = sum;
  s.n_threads = 1;
  for (int i = 0; i < 2; i++) {
    s.stride[i] = s.dilation[i] = s.pad_low[i] = s.pad_high[i] = 1;
  }
  s.array[RG_DNNL_SRC] = array_of(images, 4, RG_DNNL_CONVERTED, true);
  s.array[RG_DNNL_DST] = array_of(images, 4, RG_DNNL_CONVERTED, true);
  s.array[RG_DNNL_WEIGHT] = grouped ? array_of(groups, 5, RG_DNNL_CONVERTED, false)
                                    : array_of(whole, 4, RG_DNNL_CONVERTED, false);
  if (kind != RG_DNNL_CONV_DATA) {
    s.array[RG_DNNL_BIAS] = array_of((int64_t[]){ 16 }, 1, RG_DNNL_AS_IS, false);
  }
  return s;
}

/* -- What is made is ended ------------------------------------------------------------------- */

static void check_spec(const rg_dnnl_spec *spec, int conversions, const char *what)
{
  const bool packs = spec->array[RG_DNNL_WEIGHT].form == RG_DNNL_PACKED;
  void *data[RG_DNNL_ARRAYS];
  rg_dnnl *self = NULL;

  for (int i = 0; i < RG_DNNL_ARRAYS; i++) {
    data[i] = spec->array[i].ndim > 0 ? data_of[i] : NULL;
  }
  begin();
  is_status(rg_dnnl_new(spec, &self), RG_OK, what);
  ok(rg_dnnl_scratch_bytes(self) <= (int64_t)sizeof(scratch), "there is scratch enough");
  if (packs) {
    rg_dnnl_array plain = spec->array[RG_DNNL_WEIGHT];

    ok(rg_dnnl_packed_bytes(self) <= (int64_t)sizeof(packed), "and room for the weight");
    is_status(rg_dnnl_pack(self, &plain, data[RG_DNNL_WEIGHT], packed), RG_OK, "which is packed");
    data[RG_DNNL_WEIGHT] = packed;
  }
  is_status(rg_dnnl_run(self, data, scratch), RG_OK, "it runs");
  ok(made[MEMORY] > 4 && made[STREAM] == 1, "with memory objects and a stream of its own");
  ok(made[PRIMITIVE] > conversions, "and so many conversions at least");
  rg_dnnl_release(self);
  check_ended(what);
}

static void test_ended(void)
{
  rg_dnnl_spec s = product_of(RG_DNNL_CONVERTED);

  check_spec(&s, 1, "a product whose factors are converted");
  s = product_of(RG_DNNL_PACKED);
  check_spec(&s, 1, "a product whose weight is packed");
  s = conv_of(RG_DNNL_CONV, false, RG_ACT_RELU, 0);
  check_spec(&s, 2, "a convolution");
  s = conv_of(RG_DNNL_CONV, false, RG_ACT_RELU, 1);
  check_spec(&s, 3, "a convolution that adds");
  s = conv_of(RG_DNNL_CONV, true, RG_ACT_TANH, 0);
  check_spec(&s, 0, "a convolution of groups with an activation");
  s = conv_of(RG_DNNL_CONV_DATA, false, RG_ACT_NONE, 0);
  check_spec(&s, 2, "the gradient of its input");
  s = conv_of(RG_DNNL_CONV_WEIGHT, false, RG_ACT_NONE, 0);
  check_spec(&s, 2, "and of its weight");
}

/* A primitive that cannot be made leaves nothing behind either. */
static void test_refused(void)
{
  rg_dnnl_spec s = product_of(RG_DNNL_CONVERTED);
  rg_dnnl *self = NULL;

  s.array[RG_DNNL_DST].size[1] = 15; /* not what the factors give */
  begin();
  ok(rg_dnnl_new(&s, &self) != RG_OK && self == NULL, "sizes that do not fit are refused");
  ok(made[ATTR] == 1 && made[POST_OPS] == 1, "after attributes were made");
  check_ended("a product that is refused");
}

/* -- Threads --------------------------------------------------------------------------------- */

static void test_threads(void)
{
  void *data[RG_DNNL_ARRAYS] = { data_of[0], data_of[1], data_of[2], data_of[3] };

  omp_set_num_threads(5);
  for (int32_t n = 1; n <= 3; n++) {
    rg_dnnl_spec s = product_of(RG_DNNL_CONVERTED);
    rg_dnnl *self = NULL;

    s.n_threads = n;
    begin();
    is_status(rg_dnnl_new(&s, &self), RG_OK, "a product");
    is_int(planned, n, "is planned for the threads of its spec");
    is_int(omp_get_max_threads(), 5, "which are the caller's own again");
    is_status(rg_dnnl_run(self, data, scratch), RG_OK, "run");
    is_int(worked, n, "it has them");
    is_int(omp_get_max_threads(), 5, "and then the caller's are as before");
    rg_dnnl_release(self);
  }
}

static rg_tensor *zeros(const int64_t *shape, int32_t ndim)
{
  rg_tensor *x = NULL;

  is_status(rg_empty(RG_F32, RG_CPU, shape, ndim, &x), RG_OK, "a tensor");
  memset(x->_data, 0, (size_t)x->_count * sizeof(float));
  return x;
}

/* What a product or a convolution is worth, oneDNN is told. */
static void test_worth(void)
{
  const int64_t square[] = { 256, 256 }, images[] = { 1, 16, 64, 64 }, kernels[] = { 32, 16, 3, 3 };
  const rg_conv2d_options plain = { .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 };
  rg_tensor *x = zeros(square, 2), *image = zeros(images, 4), *kernel = zeros(kernels, 4);
  rg_tensor *y = NULL;

  is_status(rg_set_gemm_path("onednn"), RG_OK, "products go to oneDNN");
  is_status(rg_set_threads(3), RG_OK, "with three threads");
  begin();
  is_status(rg_matmul(x, x, &y), RG_OK, "a product that is worth all of them");
  is_int(planned, 3, "is planned for them");
  is_int(worked, 3, "and has them");
  rg_tensor_release(x);
  rg_tensor_release(y);
  y = NULL;
  begin();
  is_status(rg_conv2d(image, kernel, NULL, &plain, &y), RG_OK, "a convolution");
  if (worked != -1) {
    is_int(worked, 3, "that goes to oneDNN has them, too");
  }
  rg_tensor_release(image);
  rg_tensor_release(kernel);
  rg_tensor_release(y);
  is_status(rg_set_gemm_path("auto"), RG_OK, "back");
}

int main(void)
{
  test_ended();
  if (!tap_refusing()) {
    test_refused();
  }
  test_threads();
  test_worth();
  return done();
}
