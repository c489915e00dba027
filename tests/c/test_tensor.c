/* SPDX-License-Identifier: MIT */
/*
** Tensors and views: shapes, strides, elements of every type, and what is refused with which words.
*/
#include <stdlib.h>

#include "base/base.h"
#include "ridge/grad.h"
#include "ridge/op.h"
#include "tap.h"
#include "tensor/tensor.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })
#define SAYS(text) (strstr(rg_error_message(), (text)) != NULL)

static rg_tensor *made(int32_t dtype, int32_t ndim, const int64_t *shape)
{
  rg_tensor *x = NULL;

  if (rg_empty(dtype, RG_CPU, shape, ndim, &x) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return x;
}

/* 0, 1, 2, ... in row-major order. */
static rg_tensor *counted(int32_t ndim, const int64_t *shape)
{
  rg_tensor *x = made(RG_F32, ndim, shape);

  for (int64_t i = 0; i < x->_count; i++) {
    ((float *)x->_data)[i] = (float)i;
  }
  return x;
}

static bool shaped(const rg_tensor *x, int32_t ndim, const int64_t *shape, const int64_t *stride)
{
  bool same = x->_ndim == ndim;

  for (int32_t i = 0; same && i < ndim; i++) {
    same = x->_shape[i] == shape[i] && (stride == NULL || x->_stride[i] == stride[i]);
  }
  return same;
}

static double at(const rg_tensor *x, int32_t n, const int64_t *index)
{
  double value = NAN;

  return rg_tensor_get(x, index, n, &value) == RG_OK ? value : NAN;
}

/* -- Making ---------------------------------------------------------------------- */

static void test_empty(void)
{
  static const struct {
    int32_t dtype;
    int64_t bytes;
    const char *name;
  } types[] = {
    { RG_F32, 4, "f32" },       { RG_F64, 8, "f64" },       { RG_F16, 2, "f16" },
    { RG_BF16, 2, "bf16" },     { RG_I64, 8, "i64" },       { RG_I32, 4, "i32" },
    { RG_I8, 1, "i8" },         { RG_U8, 1, "u8" },         { RG_BOOL, 1, "bool" },
    { RG_F8E4M3, 1, "f8e4m3" }, { RG_F8E5M2, 1, "f8e5m2" },
  };
  rg_tensor *x;

  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    x = made(types[i].dtype, 2, SHAPE(3, 5));
    ok(x != NULL && rg_tensor_bytes(x) == 15 * types[i].bytes, types[i].name);
    ok(strcmp(rg_dtype_name(types[i].dtype), types[i].name) == 0, "has its name");
    rg_tensor_release(x);
  }
  x = made(RG_F32, 3, SHAPE(2, 3, 4));
  ok(shaped(x, 3, SHAPE(2, 3, 4), SHAPE(12, 4, 1)), "strides count elements, row-major");
  ok(x->_count == 24 && x->_device == RG_CPU && x->_flags == RG_TENSOR_CONTIGUOUS, "and facts");
  ok((uintptr_t)x->_data % 64 == 0, "data is on 64 bytes");
  rg_tensor_release(x);
  x = made(RG_F32, 0, NULL);
  ok(x != NULL && x->_count == 1 && rg_tensor_bytes(x) == 4, "a scalar has one element");
  rg_tensor_release(x);
  x = made(RG_F32, 3, SHAPE(2, 0, 4));
  ok(x != NULL && x->_count == 0 && (x->_flags & RG_TENSOR_CONTIGUOUS), "a size of 0 is a size");
  rg_tensor_release(x);
  x = made(RG_U8, 8, SHAPE(1, 2, 1, 2, 1, 2, 1, 2));
  ok(x != NULL && x->_count == 16, "eight axes are possible");
  rg_tensor_release(x);
  is_int(rg_dtype_bytes(-1) + rg_dtype_bytes(RG_DTYPE_COUNT), 0, "no other type has a size");
  ok(strcmp(rg_dtype_name(99), "?") == 0 && strcmp(rg_device_name(-1), "?") == 0, "or a name");
  ok(strcmp(rg_device_name(0), "cpu") == 0 && strcmp(rg_device_name(2), "cuda:1") == 0,
     "devices are named");
}

/* Each axis of an element is looked at, at both ends. */
static void test_outside(void)
{
  rg_tensor *x = made(RG_F32, 3, SHAPE(2, 3, 4));
  double value = 0;

  for (int32_t axis = 0; axis < 3; axis++) {
    const int64_t ends[] = { -1, 0, x->_shape[axis] - 1, x->_shape[axis], INT64_MAX, INT64_MIN };

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
      int64_t index[3] = { 1, 1, 1 };
      const rg_status wanted = i == 1 || i == 2 ? RG_OK : RG_EAXIS;

      index[axis] = ends[i];
      is_status(rg_tensor_get(x, index, 3, &value), wanted, "an element read");
      is_status(rg_tensor_set(x, index, 3, 5), wanted, "and written");
    }
  }
  rg_tensor_release(x);
}

static void test_refused(void)
{
  rg_tensor *const untouched = (rg_tensor *)&rg_host_access_refused;
  rg_tensor *x = untouched;
  const int64_t big = (int64_t)1 << 40;

  is_status(rg_empty(99, RG_CPU, SHAPE(2), 1, &x), RG_EDTYPE, "no such type");
  ok(SAYS("99"), "it is named");
  is_status(rg_empty(RG_F32, 1, SHAPE(2), 1, &x), RG_EDEVICE, "no such device");
  is_status(rg_empty(RG_F32, RG_CPU, SHAPE(2, -3), 2, &x), RG_ESHAPE, "a negative size");
  ok(SAYS("-3") && SAYS("axis 2"), "is named with its axis");
  is_status(rg_empty(RG_F32, RG_CPU, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), 9, &x), RG_ESHAPE,
            "nine axes");
  ok(SAYS("9 axes") && SAYS("8"), "are too many");
  is_status(rg_empty(RG_F32, RG_CPU, SHAPE(2), -1, &x), RG_ESHAPE, "fewer than none");
  is_status(rg_empty(RG_F32, RG_CPU, SHAPE(big, big), 2, &x), RG_ESHAPE, "too many elements");
  ok(SAYS("[1099511627776,1099511627776]"), "are named");
  is_status(rg_empty(RG_F32, RG_CPU, SHAPE(big, 0, big), 3, &x), RG_ESHAPE,
            "even beside a size of 0");
  is_status(rg_empty(RG_F32, RG_CPU, SHAPE(INT64_MAX), 1, &x), RG_ESHAPE, "the largest size");
  is_status(rg_empty(RG_F64, RG_CPU, SHAPE(big), 1, &x), RG_ENOMEM, "more memory than there is");
  is_status(rg_empty(RG_F32, RG_CPU, NULL, 1, &x), RG_EARG, "no shape");
  is_status(rg_empty(RG_F32, RG_CPU, SHAPE(2), 1, NULL), RG_EARG, "no place to go");
  is_status(rg_tensor_from_doubles((double[]){ 1, 2 }, 2, RG_F32, SHAPE(3), 1, &x), RG_ESHAPE,
            "two values for three");
  ok(SAYS("2 values") && SAYS("f32[3]"), "are named");
  is_status(rg_tensor_from_doubles(NULL, 2, RG_F32, SHAPE(2), 1, &x), RG_EARG, "no values");
  is_status(rg_tensor_from_doubles((double[]){ 1 }, 1, RG_F32, SHAPE(1), 1, NULL), RG_EARG,
            "no place for them");
  ok(x == untouched, "out is written only on success");
}

/* -- Elements -------------------------------------------------------------------- */

static bool alike(double a, double b)
{
  return a == b || (isnan(a) && isnan(b));
}

/* Values in, and what comes out of each type: truncated, saturated, rounded. */
static void test_elements(void)
{
  enum { N = 9 };
  static const double in[N] = { 1.75, -1.75, 300, -300, 3e9, -1e19, 1e300, 65519.99, 0.5 };
  static const struct {
    int32_t dtype;
    double out[N];
  } want[] = {
    { RG_F64, { 1.75, -1.75, 300, -300, 3e9, -1e19, 1e300, 65519.99, 0.5 } },
    { RG_F16, { 1.75, -1.75, 300, -300, INFINITY, -INFINITY, INFINITY, 65504, 0.5 } },
    { RG_BF16, { 1.75, -1.75, 300, -300, 179 * 0x1p24, -139 * 0x1p56, INFINITY, 65536, 0.5 } },
    { RG_I64, { 1, -1, 300, -300, 3e9, -9223372036854775808.0, 9223372036854775807.0, 65519, 0 } },
    { RG_I32, { 1, -1, 300, -300, INT32_MAX, INT32_MIN, INT32_MAX, 65519, 0 } },
    { RG_I8, { 1, -1, 127, -128, 127, -128, 127, 127, 0 } },
    { RG_U8, { 1, 0, 255, 0, 255, 0, 255, 255, 0 } },
    { RG_BOOL, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
    { RG_F8E4M3, { 1.75, -1.75, 288, -288, NAN, NAN, NAN, NAN, 0.5 } },
    { RG_F8E5M2, { 1.75, -1.75, 320, -320, INFINITY, -INFINITY, INFINITY, INFINITY, 0.5 } },
  };

  for (size_t t = 0; t < sizeof(want) / sizeof(want[0]); t++) {
    rg_tensor *x = NULL;
    rg_tensor *y = made(want[t].dtype, 1, SHAPE(N));
    bool right = true;
    bool set = true;

    is_status(rg_tensor_from_doubles(in, N, want[t].dtype, SHAPE(N), 1, &x), RG_OK,
              rg_dtype_name(want[t].dtype));
    for (int64_t i = 0; i < N; i++) {
      double got = at(x, 1, &i);

      right = right && alike(got, want[t].out[i]);
      set = set && rg_tensor_set(y, &i, 1, in[i]) == RG_OK && alike(at(y, 1, &i), got);
    }
    ok(right, "holds what it can of each number");
    ok(set, "also one by one");
    rg_tensor_release(x);
    rg_tensor_release(y);
  }
}

static void test_nan(void)
{
  for (int32_t dtype = 0; dtype < RG_DTYPE_COUNT; dtype++) {
    rg_tensor *x = made(dtype, 0, NULL);
    bool is_float = dtype == RG_F32 || dtype == RG_F64 || dtype == RG_F16 || dtype == RG_BF16 ||
                    dtype == RG_F8E4M3 || dtype == RG_F8E5M2;
    double got;

    is_status(rg_tensor_set(x, NULL, 0, NAN), RG_OK, "nan");
    got = at(x, 0, NULL);
    ok(is_float ? isnan(got) : got == (dtype == RG_BOOL ? 1 : 0), "as far as the type has it");
    rg_tensor_release(x);
  }
}

/* LuaJIT reads a double with other NaN bits as a nil or as a pointer. */
static void test_nan_of_lua(void)
{
  static const uint32_t odd[] = { 0xffffffffu, 0xfff12345u, 0x7fc00001u };
  static const uint64_t odd64 = 0xfffe000012345678u;
  rg_tensor *x = made(RG_F32, 1, SHAPE(3));
  double all[3] = { 0 };
  double one = 0;
  uint64_t bits;

  is_status(rg_tensor_write(x, odd, sizeof(odd)), RG_OK, "floats with NaN of three kinds");
  is_status(rg_tensor_to_doubles(x, all, 3), RG_OK, "as doubles");
  for (int i = 0; i < 3; i++) {
    memcpy(&bits, &all[i], sizeof(bits));
    ok(bits == 0x7ff8000000000000u, "each NaN of all is the one of Lua");
    one = at(x, 1, SHAPE(i));
    memcpy(&bits, &one, sizeof(bits));
    ok(bits == 0x7ff8000000000000u, "and when it is read alone");
  }
  is_status(rg_doubles_from(&odd64, 1, RG_F64, &one), RG_OK, "bits from anywhere");
  memcpy(&bits, &one, sizeof(bits));
  ok(bits == 0x7ff8000000000000u, "are settled too");
  is_status(rg_tensor_to_doubles(x, all, 2), RG_ESHAPE, "the count must be the tensor's");
  is_status(rg_doubles_from(&odd64, 1, 99, &one), RG_EARG, "the type must be one");
  rg_tensor_release(x);
}

/* A double goes to 16 bits in one rounding, not by way of float. */
static void test_rounded_once(void)
{
  rg_tensor *x = made(RG_F16, 1, SHAPE(1));
  rg_tensor *y = made(RG_BF16, 1, SHAPE(1));

  is_status(rg_tensor_set(x, SHAPE(0), 1, 1 + 0x1p-11 + 0x1p-40), RG_OK, "just above a tie");
  ok(at(x, 1, SHAPE(0)) == 1 + 0x1p-10, "goes up in f16");
  is_status(rg_tensor_set(y, SHAPE(0), 1, 1 + 0x3p-8 - 0x1p-40), RG_OK, "just below a tie");
  ok(at(y, 1, SHAPE(0)) == 1 + 0x1p-7, "goes down in bf16");
  is_status(rg_tensor_set(x, SHAPE(0), 1, 1e300), RG_OK, "too large");
  ok(at(x, 1, SHAPE(0)) == INFINITY, "is infinity");
  rg_tensor_release(x);
  rg_tensor_release(y);
}

static void test_transfer(void)
{
  rg_tensor *x = counted(2, SHAPE(2, 3));
  rg_tensor *transposed = NULL;
  rg_tensor *none = made(RG_F32, 1, SHAPE(0));
  float data[6] = { 9, 8, 7, 6, 5, 4 };
  uint64_t version = rg_tensor_version(x);
  double value = 5;

  is_status(rg_tensor_write(x, data, sizeof(data)), RG_OK, "written");
  is_int(rg_tensor_version(x) - version, 1, "is a new version");
  memset(data, 0, sizeof(data));
  is_status(rg_tensor_read(x, data, sizeof(data)), RG_OK, "read");
  ok(data[0] == 9 && data[5] == 4, "is what was written");
  is_int(rg_tensor_version(x) - version, 1, "and no new version");
  is_status(rg_tensor_set(x, SHAPE(1, 2), 2, 3), RG_OK, "an element set");
  is_int(rg_tensor_version(x) - version, 2, "is one");
  is_status(rg_tensor_read(x, data, 23), RG_ESHAPE, "a byte too few");
  ok(SAYS("23 bytes") && SAYS("f32[2,3]"), "is named");
  is_status(rg_tensor_write(x, data, 25), RG_ESHAPE, "a byte too many");
  is_status(rg_tensor_read(x, NULL, 24), RG_EARG, "no memory");
  is_status(rg_transpose(x, 0, 1, &transposed), RG_OK, "with gaps");
  is_status(rg_tensor_read(transposed, data, 24), RG_ESHAPE, "is not read in one piece");
  ok(SAYS("gaps"), "and says why");
  is_status(rg_tensor_read(none, NULL, 0), RG_OK, "nothing is read from nothing");
  is_status(rg_tensor_get(x, SHAPE(0, 3), 2, &value), RG_EAXIS, "past the end");
  ok(SAYS("position 4 of axis 2") && SAYS("f32[2,3]"), "is named, counted from 1");
  is_status(rg_tensor_get(x, SHAPE(INT64_MAX, 0), 2, &value), RG_EAXIS, "far past the end");
  is_status(rg_tensor_get(x, SHAPE(-1, 0), 2, &value), RG_EAXIS, "before the begin");
  is_status(rg_tensor_get(x, SHAPE(1), 1, &value), RG_EAXIS, "too few indices");
  is_status(rg_tensor_get(x, NULL, 2, &value), RG_EAXIS, "none given");
  is_status(rg_tensor_get(x, SHAPE(0, 0), 2, NULL), RG_EARG, "no place to go");
  is_status(rg_tensor_set(x, SHAPE(2, 0), 2, 1), RG_EAXIS, "nothing is set outside");
  ok(value == 5, "out is written only on success");
  rg_tensor_release(transposed);
  rg_tensor_release(none);
  rg_tensor_release(x);
}

/* -- Holding --------------------------------------------------------------------- */

static void test_references(void)
{
  int64_t live = rg_memory_of(RG_CPU)->live_bytes;
  int64_t tensors = rg_live_tensors();
  rg_tensor *x = counted(1, SHAPE(10));
  rg_tensor *y = NULL;
  rg_tensor *z;
  double value = 7;

  is_status(rg_narrow(x, 0, 2, 4, 1, &y), RG_OK, "a view");
  is_int(rg_live_tensors() - tensors, 2, "is a tensor");
  is_int(rg_memory_of(RG_CPU)->live_bytes - live, 40, "without memory of its own");
  ok(rg_tensor_same_storage(x, y) && !rg_tensor_same_storage(x, NULL), "it shares");
  is_status(rg_tensor_set(y, SHAPE(0), 1, 77), RG_OK, "a write through it");
  ok(at(x, 1, SHAPE(2)) == 77, "is seen");
  is_int(rg_tensor_version(x), rg_tensor_version(y), "as a version of both");
  rg_tensor_release(x);
  ok(at(y, 1, SHAPE(1)) == 3, "the view keeps the memory");
  ok(rg_tensor_retain(y) == y, "a reference more");
  rg_tensor_release(y);
  ok(at(y, 1, SHAPE(1)) == 3, "keeps the view");
  rg_tensor_drop(y);
  rg_tensor_drop(y);
  is_int(rg_memory_of(RG_CPU)->live_bytes, live, "dropped, the memory goes, whoever holds it");
  z = y;
  is_status(rg_tensor_get(y, SHAPE(0), 1, &value), RG_ERELEASED, "reading says so");
  ok(strcmp(rg_error_message(), "get: the tensor f32[4] was released") == 0, "by name");
  is_status(rg_tensor_set(y, SHAPE(0), 1, 1), RG_ERELEASED, "writing too");
  is_status(rg_tensor_read(y, &value, 8), RG_ERELEASED, "in bytes");
  is_status(rg_tensor_write(y, &value, 8), RG_ERELEASED, "or out");
  is_status(rg_view(y, SHAPE(4), 1, &z), RG_ERELEASED, "and every view");
  is_status(rg_permute(y, (int32_t[]){ 0 }, 1, &z), RG_ERELEASED, "permuted");
  is_status(rg_transpose(y, 0, 0, &z), RG_ERELEASED, "transposed");
  is_status(rg_narrow(y, 0, 0, 1, 1, &z), RG_ERELEASED, "narrowed");
  is_status(rg_select(y, 0, 0, &z), RG_ERELEASED, "selected");
  is_status(rg_expand(y, SHAPE(4), 1, &z), RG_ERELEASED, "expanded");
  is_status(rg_unsqueeze(y, 0, &z), RG_ERELEASED, "unsqueezed");
  is_status(rg_squeeze(y, 0, &z), RG_ERELEASED, "squeezed");
  ok(z == y && value == 7, "nothing is written");
  is_int(rg_tensor_version(y), 0, "it has no version");
  rg_tensor_release(y);
  is_int(rg_live_tensors(), tensors, "no tensor is left");
  is_status(rg_tensor_get(NULL, NULL, 0, &value), RG_EARG, "no tensor is one");
  ok(SAYS("nil"), "and called nil");
  rg_tensor_release(NULL);
  rg_tensor_drop(NULL);
  rg_tensor_set_param(NULL, 1);
  ok(rg_tensor_retain(NULL) == NULL && rg_tensor_bytes(NULL) == 0, "no tensor has no bytes");
}

/* Whoever reads a tensor before the call is made asks first whether it is there. */
static void test_none(void)
{
  rg_tensor *x = counted(1, SHAPE(2));
  rg_tensor *y = NULL;

#define IS_NONE(call)                        \
  do {                                       \
    is_status(call, RG_EARG, #call);         \
    ok(SAYS("a tensor is expected"), #call); \
  } while (0)
  IS_NONE(rg_fill_(NULL, 1));
  IS_NONE(rg_arange_(NULL, 0, 1));
  IS_NONE(rg_uniform_(NULL, 0, 1, NULL));
  IS_NONE(rg_normal_(NULL, 0, 1, NULL));
  IS_NONE(rg_signs_(NULL, 1, NULL));
  IS_NONE(rg_randint_(NULL, 0, 2, NULL));
  IS_NONE(rg_dropout_(NULL, 0.5, NULL));
  IS_NONE(rg_copy_(NULL, x));
  IS_NONE(rg_copy_(x, NULL));
  IS_NONE(rg_clone(NULL, &y));
  IS_NONE(rg_contiguous(NULL, &y));
  IS_NONE(rg_to_device(NULL, RG_CPU, &y));
  IS_NONE(rg_argmax(NULL, 0, 0, &y));
  IS_NONE(rg_softmax(NULL, 0, &y));
  IS_NONE(rg_require_grad(NULL, 1));
  IS_NONE(rg_grad_of(NULL, &y));
  IS_NONE(rg_zero_grad(NULL, 1));
  IS_NONE(rg_backward(NULL, NULL, 0));
#undef IS_NONE
  ok(y == NULL, "nothing is written");
  rg_tensor_release(x);
}

static void test_param(void)
{
  rg_tensor *x = counted(2, SHAPE(2, 3));
  rg_tensor *y = NULL;

  rg_tensor_set_part(x, 1);
  is_int(x->_flags, RG_TENSOR_CONTIGUOUS | RG_TENSOR_PART, "marked as a part");
  rg_tensor_set_param(x, 1);
  is_int(x->_flags, RG_TENSOR_CONTIGUOUS | RG_TENSOR_PART | RG_TENSOR_PARAM, "marked as a weight");
  rg_tensor_set_part(x, 1);
  rg_tensor_set_part(x, 0);
  is_int(x->_flags, RG_TENSOR_CONTIGUOUS | RG_TENSOR_PARAM, "and no longer as a part");
  rg_tensor_set_part(NULL, 1);
  rg_tensor_set_param(NULL, 1);
  is_status(rg_transpose(x, 0, 1, &y), RG_OK, "a view of a weight");
  ok(y->_flags & RG_TENSOR_PARAM, "is one");
  rg_tensor_set_param(x, 0);
  is_int(x->_flags, RG_TENSOR_CONTIGUOUS, "until it is taken back");
  rg_tensor_release(x);
  rg_tensor_release(y);
}

int main(void)
{
  test_empty();
  test_outside();
  test_refused();
  test_elements();
  test_nan();
  test_nan_of_lua();
  test_rounded_once();
  test_transfer();
  test_references();
  test_none();
  test_param();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  is_int(rg_memory_of(RG_CPU)->live_bytes, 0, "no memory is left");
  return done();
}
