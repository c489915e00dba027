/* SPDX-License-Identifier: MIT */
/*
** Products against plain double loops: every type, stride, way, instruction set and thread count;
** packed weights after a write; plans.
*/
#include <stdlib.h>

#include "ridge.h"
#include "tap.h"

/* -- Small tools ----------------------------------------------------------------------------- */

static uint64_t state = 1;

/* In [-1, 1], a multiple of 1/64: exact in every float type, and sums of products in f32. */
static double draw(void)
{
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)((int64_t)(state >> 40) % 65) / 64.0 * ((state >> 39 & 1) != 0 ? 1 : -1);
}

static rg_tensor *made(int32_t dtype, const int64_t *shape, int32_t ndim)
{
  rg_tensor *x = NULL;
  int64_t count = 1;
  double *values;

  for (int32_t i = 0; i < ndim; i++) {
    count *= shape[i];
  }
  values = malloc(sizeof(double) * (size_t)(count + 1));
  for (int64_t i = 0; i < count; i++) {
    values[i] = draw();
  }
  if (rg_tensor_from_doubles(values, count, dtype, shape, ndim, &x) != RG_OK) {
    printf("# %s\n", rg_error_message());
    abort();
  }
  free(values);
  return x;
}

static rg_tensor *matrix(int32_t dtype, int64_t rows, int64_t cols)
{
  return made(dtype, (const int64_t[]){ rows, cols }, 2);
}

/* Element at a row-major index, whatever the strides. */
static double at(const rg_tensor *x, int64_t index)
{
  int64_t place[RG_MAX_DIMS];
  double value = NAN;

  for (int32_t i = x->_ndim - 1; i >= 0; i--) {
    place[i] = index % x->_shape[i];
    index /= x->_shape[i];
  }
  if (rg_tensor_get(x, place, x->_ndim, &value) != RG_OK) {
    printf("# %s\n", rg_error_message());
  }
  return value;
}

static double at2(const rg_tensor *x, int64_t i, int64_t j)
{
  return at(x, i * x->_shape[x->_ndim - 1] + j);
}

static double tolerance_of(int32_t dtype, double k)
{
  switch (dtype) {
  case RG_BF16:
    return 0x1p-8 * sqrt(k + 1) * 2;
  case RG_F16:
    return 0x1p-11 * sqrt(k + 1) * 2;
  case RG_F32:
    return 1e-6 * (k + 1);
  default:
    return 1e-12 * (k + 1);
  }
}

static double activated(int32_t act, double x)
{
  switch (act) {
  case RG_ACT_RELU:
    return x > 0 ? x : 0;
  case RG_ACT_RELU6:
    return x < 0 ? 0 : x > 6 ? 6 : x;
  case RG_ACT_GELU:
    return x * 0.5 * (1 + erf(x / sqrt(2)));
  case RG_ACT_SILU:
    return x / (1 + exp(-x));
  case RG_ACT_TANH:
    return tanh(x);
  case RG_ACT_SIGMOID:
    return 1 / (1 + exp(-x));
  default:
    return x;
  }
}

/* Largest distance of y from act(x w' + b). */
static double linear_error(const rg_tensor *x, const rg_tensor *w, const rg_tensor *b, int32_t act,
                           const rg_tensor *y)
{
  int64_t k = w->_shape[1];
  int64_t n = w->_shape[0];
  int64_t rows = k > 0 ? x->_count / k : 0;
  double worst = 0;

  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < n; j++) {
      double sum = b != NULL ? at(b, j) : 0;

      for (int64_t l = 0; l < k; l++) {
        sum += at(x, i * k + l) * at2(w, j, l);
      }
      double distance = fabs(activated(act, sum) - at(y, i * n + j));
      worst = distance <= worst ? worst : distance; /* nan is the worst */
    }
  }
  return worst;
}

static double matmul_error(const rg_tensor *x, const rg_tensor *y, const rg_tensor *z)
{
  int64_t k = x->_shape[x->_ndim - 1];
  int64_t m = x->_shape[x->_ndim - 2];
  int64_t n = y->_shape[y->_ndim - 1];
  int64_t batch = z->_count / (m * n);
  int64_t bx = x->_count / (m * k);
  int64_t by = y->_count / (k * n);
  double worst = 0;

  for (int64_t q = 0; q < batch; q++) {
    for (int64_t i = 0; i < m; i++) {
      for (int64_t j = 0; j < n; j++) {
        double sum = 0;

        for (int64_t l = 0; l < k; l++) {
          sum += at(x, (q % bx * m + i) * k + l) * at(y, (q % by * k + l) * n + j);
        }
        double distance = fabs(sum - at(z, (q * m + i) * n + j));
        worst = distance <= worst ? worst : distance;
      }
    }
  }
  return worst;
}

static const char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *text(const char *format, ...)
{
  static char buffer[200];
  va_list args;

  va_start(args, format);
  (void)vsnprintf(buffer, sizeof(buffer), format, args);
  va_end(args);
  return buffer;
}

static const char *const ways[] = { "auto", "onednn", "openblas", "own" };
static const int32_t floats[] = { RG_F32, RG_BF16, RG_F16, RG_F64 };

/* -- Linear ------------------------------------------------------------------------------------ */

static void try_linear(int64_t m, int64_t k, int64_t n, int32_t dtype, bool param, int32_t act,
                       const char *what)
{
  rg_tensor *x = matrix(dtype, m, k);
  rg_tensor *w = matrix(dtype, n, k);
  rg_tensor *b = made(dtype, (const int64_t[]){ n }, 1);
  rg_tensor *y = NULL;

  rg_tensor_set_param(w, param);
  if (is_status(rg_linear(x, w, b, act, &y), RG_OK, text("%s runs", what))) {
    close_to(linear_error(x, w, b, act, y), 0, tolerance_of(dtype, (double)k), what);
    is_int(y->_dtype, dtype, "the result has the inputs' type");
  }
  rg_tensor_release(x);
  rg_tensor_release(w);
  rg_tensor_release(b);
  rg_tensor_release(y);
}

static void test_linear(void)
{
  static const int64_t sizes[][3] = { { 1, 64, 64 },  { 1, 133, 70 }, { 1, 37, 19 },   { 2, 5, 3 },
                                      { 17, 33, 31 }, { 33, 64, 96 }, { 48, 100, 70 }, { 5, 0, 7 },
                                      { 4, 9, 0 },    { 0, 9, 4 },    { 1, 1, 1 } };

  for (size_t way = 0; way < 4; way++) {
    is_status(rg_set_gemm_path(ways[way]), RG_OK, "the way is known");
    for (size_t d = 0; d < 4; d++) {
      for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        for (int param = 0; param < 2; param++) {
          int64_t m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
          char what[120];

          (void)snprintf(what, sizeof(what), "linear %lldx%lldx%lld %s %s%s", (long long)m,
                         (long long)k, (long long)n, rg_dtype_name(floats[d]), ways[way],
                         param ? " packed" : "");
          try_linear(m, k, n, floats[d], param, (int32_t)s % RG_ACT_COUNT, what);
        }
      }
    }
  }
  /* a deep one, whose inner axis is cut, for both kinds of result */
  for (size_t way = 0; way < 4; way++) {
    is_status(rg_set_gemm_path(ways[way]), RG_OK, "the way is known");
    try_linear(7, 3001, 64, RG_F32, true, RG_ACT_RELU, text("deep linear, packed, %s", ways[way]));
    try_linear(7, 3001, 64, RG_F32, false, RG_ACT_NONE, text("deep linear, %s", ways[way]));
    try_linear(20, 2000, 40, RG_BF16, true, RG_ACT_NONE, text("deep bf16, %s", ways[way]));
  }
  is_status(rg_set_gemm_path("auto"), RG_OK, "back");
  is_status(rg_set_gemm_path("mkl"), RG_EARG, "an unknown way is refused");
}

static void test_instruction_sets(void)
{
  int32_t most = rg_machine_facts()->isa_level;

  is_status(rg_set_gemm_path("own"), RG_OK, "own kernels");
  for (int32_t isa = 0; isa <= most; isa++) {
    is_status(rg_set_isa(isa), RG_OK, "an instruction set");
    for (int64_t m = 1; m <= 15; m++) {
      try_linear(m, 19, 41, RG_F32, true, RG_ACT_RELU,
                 text("%lld rows, instruction set %d", (long long)m, isa));
      try_linear(m, 70, 41, RG_BF16, false, RG_ACT_NONE,
                 text("%lld rows of bf16, instruction set %d", (long long)m, isa));
    }
    /* rows a way of L1 apart, where tiles have fewer of them */
    for (int64_t m = 6; m <= 23; m++) {
      try_linear(m, 2048, 33, RG_BF16, m % 2 == 0, RG_ACT_NONE,
                 text("%lld deep rows of bf16, instruction set %d", (long long)m, isa));
      try_linear(m, 1024, 33, RG_F32, m % 2 == 0, RG_ACT_NONE,
                 text("%lld deep rows, instruction set %d", (long long)m, isa));
    }
  }
  is_status(rg_set_isa(most), RG_OK, "back");
  is_status(rg_set_gemm_path("auto"), RG_OK, "back");
}

/* -- Threads ----------------------------------------------------------------------------------- */

static void test_threads(void)
{
  int32_t before = rg_threads();

  for (int d = 0; d < 2; d++) {
    rg_tensor *x = matrix(floats[d], 130, 300);
    rg_tensor *w = matrix(floats[d], 200, 300);
    rg_tensor *y[3] = { NULL, NULL, NULL };
    bool same = true;

    rg_tensor_set_param(w, 1);
    for (int32_t t = 0; t < 3; t++) {
      is_status(rg_set_threads(t + 1), RG_OK, "threads");
      is_status(rg_linear(x, w, NULL, RG_ACT_NONE, &y[t]), RG_OK, "runs");
    }
    for (int64_t i = 0; i < y[0]->_count; i++) {
      same = same && at(y[0], i) == at(y[1], i) && at(y[0], i) == at(y[2], i);
    }
    ok(same, text("%s: the same bits for one, two and three threads", rg_dtype_name(floats[d])));
    close_to(linear_error(x, w, NULL, 0, y[1]), 0, tolerance_of(floats[d], 300), "and right");
    for (int t = 0; t < 3; t++) {
      rg_tensor_release(y[t]);
    }
    rg_tensor_release(x);
    rg_tensor_release(w);
  }
  is_status(rg_set_threads(before), RG_OK, "back");
}

/* -- Matmul ------------------------------------------------------------------------------------ */

static void try_matmul(rg_tensor *x, rg_tensor *y, const char *what)
{
  rg_tensor *z = NULL;

  if (is_status(rg_matmul(x, y, &z), RG_OK, what)) {
    double k = (double)x->_shape[x->_ndim - 1];
    close_to(matmul_error(x, y, z), 0, tolerance_of(z->_dtype, k), what);
  }
  rg_tensor_release(z);
}

static void test_strides(int32_t dtype)
{
  rg_tensor *x = matrix(dtype, 9, 21);
  rg_tensor *y = matrix(dtype, 13, 21);
  rg_tensor *big = matrix(dtype, 42, 26);
  rg_tensor *yt = NULL, *half = NULL, *thin = NULL, *xt = NULL, *row = NULL, *wide = NULL;

  is_status(rg_transpose(y, 0, 1, &yt), RG_OK, "a transpose");
  try_matmul(x, yt, text("right factor transposed, %s", rg_dtype_name(dtype)));
  is_status(rg_narrow(big, 0, 0, 21, 2, &half), RG_OK, "every second row");
  is_status(rg_narrow(half, 1, 1, 8, 3, &thin), RG_OK, "every third column");
  try_matmul(x, thin, text("right factor with steps, %s", rg_dtype_name(dtype)));
  is_status(rg_transpose(thin, 0, 1, &xt), RG_OK, "a transpose");
  try_matmul(xt, thin, text("both with steps, %s", rg_dtype_name(dtype)));
  is_status(rg_narrow(x, 0, 3, 1, 1, &row), RG_OK, "one row");
  is_status(rg_expand(row, (const int64_t[]){ 5, 21 }, 2, &wide), RG_OK, "five times");
  try_matmul(wide, yt, text("left factor repeated, %s", rg_dtype_name(dtype)));
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_tensor_release(big);
  rg_tensor_release(yt);
  rg_tensor_release(half);
  rg_tensor_release(thin);
  rg_tensor_release(xt);
  rg_tensor_release(row);
  rg_tensor_release(wide);
}

static void test_batches(int32_t dtype)
{
  rg_tensor *x = made(dtype, (const int64_t[]){ 6, 4, 5 }, 3);
  rg_tensor *y = made(dtype, (const int64_t[]){ 6, 5, 3 }, 3);
  rg_tensor *one = matrix(dtype, 5, 3);
  rg_tensor *four = made(dtype, (const int64_t[]){ 2, 3, 4, 5 }, 4);
  rg_tensor *last = made(dtype, (const int64_t[]){ 1, 3, 5, 2 }, 4);
  rg_tensor *transposed = NULL, *z = NULL;
  double worst = 0;

  try_matmul(x, y, text("batch, %s", rg_dtype_name(dtype)));
  try_matmul(x, one, text("batch times one matrix, %s", rg_dtype_name(dtype)));
  try_matmul(four, last, text("broadcast batch, %s", rg_dtype_name(dtype)));
  is_status(rg_transpose(x, 0, 1, &transposed), RG_OK, "batch axis inside");
  try_matmul(transposed, one, text("transposed batch times one matrix, %s", rg_dtype_name(dtype)));
  /* the same into a view whose columns are not adjacent */
  rg_tensor *room = made(dtype, (const int64_t[]){ 3, 4, 6 }, 3), *view = NULL;
  is_status(rg_permute(room, (const int32_t[]){ 2, 1, 0 }, 3, &view), RG_OK, "a transposed view");
  is_status(rg_matmul(x, one, &z), RG_OK, "product");
  is_status(rg_copy_(view, z), RG_OK, "copied");
  for (int64_t i = 0; i < z->_count; i++) {
    worst = fmax(worst, fabs(at(z, i) - at(view, i)));
  }
  close_to(worst, 0, 0, "views read back what was written");
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_tensor_release(one);
  rg_tensor_release(four);
  rg_tensor_release(last);
  rg_tensor_release(transposed);
  rg_tensor_release(room);
  rg_tensor_release(view);
  rg_tensor_release(z);
}

static void test_integers(void)
{
  static const int32_t types[] = { RG_I64, RG_I32, RG_I8, RG_U8 };

  for (int d = 0; d < 4; d++) {
    rg_tensor *x = NULL, *y = NULL, *z = NULL;
    const double a[] = { 1, 2, 3, 4, 5, 6 };
    const double b[] = { 1, 0, 2, 1, 3, 1 };
    const double want[] = { 14, 5, 32, 11 };
    bool right = true;

    is_status(rg_tensor_from_doubles(a, 6, types[d], (const int64_t[]){ 2, 3 }, 2, &x), RG_OK, "x");
    is_status(rg_tensor_from_doubles(b, 6, types[d], (const int64_t[]){ 3, 2 }, 2, &y), RG_OK, "y");
    is_status(rg_matmul(x, y, &z), RG_OK, "integers");
    for (int64_t i = 0; i < 4; i++) {
      right = right && at(z, i) == want[i];
    }
    ok(right && z->_dtype == types[d], text("a product of %s", rg_dtype_name(types[d])));
    rg_tensor_release(x);
    rg_tensor_release(y);
    rg_tensor_release(z);
  }
}

static void test_vectors(void)
{
  rg_tensor *v = made(RG_F32, (const int64_t[]){ 4 }, 1);
  rg_tensor *m = matrix(RG_F32, 4, 3), *transposed = NULL;
  rg_tensor *row = NULL, *col = NULL, *dot = NULL;
  double sum = 0, want = 0;

  is_status(rg_matmul(v, m, &row), RG_OK, "vector times matrix");
  is_status(rg_transpose(m, 0, 1, &transposed), RG_OK, "transpose");
  is_status(rg_matmul(transposed, v, &col), RG_OK, "matrix times vector");
  is_status(rg_matmul(v, v, &dot), RG_OK, "vector times vector");
  is_int(row->_ndim, 1, "one axis is left");
  is_int(dot->_ndim, 0, "none is left");
  for (int64_t i = 0; i < 3; i++) {
    sum += fabs(at(row, i) - at(col, i));
  }
  close_to(sum, 0, 1e-6, "both ways agree");
  for (int64_t i = 0; i < 4; i++) {
    want += at(v, i) * at(v, i);
  }
  close_to(at(dot, 0), want, 1e-6, "the dot product");
  rg_tensor_release(v);
  rg_tensor_release(m);
  rg_tensor_release(transposed);
  rg_tensor_release(row);
  rg_tensor_release(col);
  rg_tensor_release(dot);
}

/* -- Weights that are written to --------------------------------------------------------------- */

static void test_refresh(void)
{
  for (size_t way = 0; way < 4; way++) {
    rg_tensor *x = matrix(RG_F32, 40, 64);
    rg_tensor *w = matrix(RG_F32, 64, 64);
    rg_tensor *y = NULL;
    rg_plan *plan = NULL;
    rg_tensor *planned = NULL;

    is_status(rg_set_gemm_path(ways[way]), RG_OK, "the way is known");
    rg_tensor_set_param(w, 1);
    is_status(rg_linear(x, w, NULL, 0, &y), RG_OK, "first");
    rg_tensor_release(y);
    y = NULL;
    is_status(rg_capture_begin(), RG_OK, "capture");
    is_status(rg_linear(x, w, NULL, 0, &planned), RG_OK, "in a plan");
    is_status(rg_capture_end(&plan), RG_OK, "plan");
    is_status(rg_plan_replay(plan, 2), RG_OK, "replay");
    /* the plan first: an eager call would pack again, and perhaps to where the plan looks */
    is_status(rg_tensor_set(w, (const int64_t[]){ 3, 5 }, 2, 17.0), RG_OK, "write one element");
    is_status(rg_plan_replay(plan, 1), RG_OK, "replay");
    close_to(linear_error(x, w, NULL, 0, planned), 0, 1e-4,
             text("a plan sees a written weight, %s", ways[way]));
    is_status(rg_tensor_set(w, (const int64_t[]){ 4, 6 }, 2, -9.0), RG_OK, "write another");
    is_status(rg_linear(x, w, NULL, 0, &y), RG_OK, "second");
    close_to(linear_error(x, w, NULL, 0, y), 0, 1e-4,
             text("an eager call sees a written weight, %s", ways[way]));
    is_status(rg_tensor_set(x, (const int64_t[]){ 3, 5 }, 2, 4.0), RG_OK, "write the input");
    is_status(rg_plan_replay(plan, 1), RG_OK, "replay");
    close_to(linear_error(x, w, NULL, 0, planned), 0, 1e-4,
             text("a plan sees its input, %s", ways[way]));
    rg_plan_release(plan);
    rg_tensor_release(planned);
    rg_tensor_release(y);
    rg_tensor_release(x);
    rg_tensor_release(w);
  }
  is_status(rg_set_gemm_path("auto"), RG_OK, "back");
}

/* -- The way in the trace ---------------------------------------------------------------------- */

static const char *path_of(int32_t dtype, const char *way)
{
  rg_tensor *x = matrix(dtype, 4, 8), *w = matrix(dtype, 8, 8), *y = NULL;
  rg_happening event = { .path = "" };
  int32_t reader;
  int64_t at = 0;

  is_status(rg_set_gemm_path(way), RG_OK, "the way is known");
  is_status(rg_reader_open(1 << RG_EVENT_OP, 0, 4, &reader), RG_OK, "a reader");
  is_status(rg_linear(x, w, NULL, 0, &y), RG_OK, "linear");
  is_status(rg_reader_next(reader, &at, &event), RG_OK, "its event");
  rg_reader_close(reader);
  ok(event.live_bytes == rg_memory_of(RG_CPU)->live_bytes, "it knows what was live at its end");
  is_status(rg_set_gemm_path("auto"), RG_OK, "back");
  rg_tensor_release(x);
  rg_tensor_release(w);
  rg_tensor_release(y);
  return event.path;
}

static void test_path(void)
{
  ok(strcmp(path_of(RG_F32, "own"), "own") == 0, "own kernels say so");
  ok(strcmp(path_of(RG_F32, "onednn"), "onednn") == 0, "oneDNN says so");
  ok(strcmp(path_of(RG_F32, "openblas"), "openblas") == 0, "OpenBLAS says so");
  ok(strcmp(path_of(RG_F64, "own"), "openblas") == 0, "f64 is OpenBLAS's, whatever was asked");
  ok(strcmp(path_of(RG_F16, "own"), "own:f32") == 0, "f16 in f32 says so");
  ok(strcmp(path_of(RG_BF16, "openblas"), "openblas:f32") == 0, "bf16 in f32 says so");
}

/* -- Autocast, mixed types, odd layouts -------------------------------------------------------- */

static void test_autocast(void)
{
  rg_tensor *x = matrix(RG_F32, 12, 40);
  rg_tensor *w = matrix(RG_F32, 36, 40);
  rg_tensor *y = NULL;
  int32_t before = rg_autocast_set(RG_BF16);

  rg_tensor_set_param(w, 1);
  is_status(rg_linear(x, w, NULL, 0, &y), RG_OK, "autocast");
  rg_autocast_set(before);
  is_int(y->_dtype, RG_BF16, "gives bf16");
  close_to(linear_error(x, w, NULL, 0, y), 0, tolerance_of(RG_BF16, 40), "of the right numbers");
  rg_tensor_release(y);
  y = NULL;
  rg_tensor *wide = NULL;
  is_status(rg_cast(x, RG_F64, &wide), RG_OK, "f64");
  is_status(rg_linear(wide, w, NULL, 0, &y), RG_OK, "f64 with f32");
  is_int(y->_dtype, RG_F64, "meets at f64");
  close_to(linear_error(x, w, NULL, 0, y), 0, 1e-12, "exactly");
  rg_tensor_release(y);
  y = NULL;
  /* x whose leading axes are no single matrix */
  rg_tensor *cube = made(RG_F32, (const int64_t[]){ 3, 5, 2, 40 }, 4), *odd = NULL;
  is_status(rg_permute(cube, (const int32_t[]){ 1, 0, 2, 3 }, 4, &odd), RG_OK, "permuted");
  is_status(rg_linear(odd, w, NULL, 0, &y), RG_OK, "linear over it");
  close_to(linear_error(odd, w, NULL, 0, y), 0, 1e-4, "right all the same");
  rg_tensor_release(y);
  rg_tensor_release(cube);
  rg_tensor_release(odd);
  rg_tensor_release(wide);
  rg_tensor_release(x);
  rg_tensor_release(w);
}

static void test_refused(void)
{
  rg_tensor *x = matrix(RG_F32, 3, 4);
  rg_tensor *w = matrix(RG_F32, 5, 6);
  rg_tensor *b = made(RG_BOOL, (const int64_t[]){ 4, 2 }, 2);
  rg_tensor *i = made(RG_I32, (const int64_t[]){ 5, 4 }, 2);
  rg_tensor *y = NULL;

  is_status(rg_matmul(x, w, &y), RG_ESHAPE, "inner sizes differ");
  is_status(rg_linear(x, w, NULL, 0, &y), RG_ESHAPE, "last axis differs");
  is_status(rg_matmul(x, b, &y), RG_EDTYPE, "bool has no product");
  is_status(rg_linear(x, i, NULL, 0, &y), RG_EDTYPE, "linear takes floats");
  is_status(rg_linear(x, x, NULL, 77, &y), RG_EARG, "no such activation");
  is_status(rg_matmul(x, NULL, &y), RG_EARG, "a missing input");
  ok(y == NULL, "nothing was written");
  rg_tensor_release(x);
  rg_tensor_release(w);
  rg_tensor_release(b);
  rg_tensor_release(i);
}

/* -- Two products ------------------------------------------------------------------------------ */

static void test_lowrank(void)
{
  for (size_t way = 0; way < 4; way++) {
    for (int d = 0; d < 4; d++) {
      rg_tensor *x = matrix(floats[d], 10, 48);
      rg_tensor *a = matrix(floats[d], 48, 6);
      rg_tensor *b = matrix(floats[d], 6, 20);
      rg_tensor *bias = made(floats[d], (const int64_t[]){ 20 }, 1);
      rg_tensor *y = NULL;
      double worst = 0;

      is_status(rg_set_gemm_path(ways[way]), RG_OK, "the way is known");
      is_status(rg_lowrank_linear(x, a, b, bias, RG_ACT_RELU, &y), RG_OK, "low rank");
      for (int64_t i = 0; i < 10; i++) {
        for (int64_t j = 0; j < 20; j++) {
          double sum = at(bias, j);

          for (int64_t r = 0; r < 6; r++) {
            double z = 0;
            for (int64_t l = 0; l < 48; l++) {
              z += at2(x, i, l) * at2(a, l, r);
            }
            sum += z * at2(b, r, j);
          }
          worst = fmax(worst, fabs(fmax(sum, 0) - at2(y, i, j)));
        }
      }
      close_to(worst, 0, 4 * tolerance_of(floats[d], 48),
               text("(x a) b + bias, %s, %s", rg_dtype_name(floats[d]), ways[way]));
      rg_tensor_release(x);
      rg_tensor_release(a);
      rg_tensor_release(b);
      rg_tensor_release(bias);
      rg_tensor_release(y);
    }
  }
  is_status(rg_set_gemm_path("auto"), RG_OK, "back");
}

int main(void)
{
  int64_t before = rg_live_tensors();

  test_linear();
  test_instruction_sets();
  test_threads();
  for (int d = 0; d < 4; d++) {
    test_strides(floats[d]);
    test_batches(floats[d]);
  }
  test_integers();
  test_vectors();
  test_refresh();
  test_path();
  test_autocast();
  test_refused();
  test_lowrank();
  is_int(rg_live_tensors(), before, "nothing leaks");
  return done();
}
