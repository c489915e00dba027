/* SPDX-License-Identifier: MIT */
/*
** Layers made of several operations: what they refuse, and that nothing is left when memory runs
** out anywhere on the way.  Their numbers are compared with PyTorch's in tests/lua/nn.
*/
#include "ridge.h"

#include "base/base.h"
#include "op/compose.h"
#include "op/list.h"
#include "op/op.h"
#include "tap.h"
#include "tensor/tensor.h"

#include <malloc.h>
#include <math.h>

enum { BATCH = 2, LENGTH = 130, N = 6, CHANNELS = 4 }; /* more places than one chunk has */

static rg_generator *generator;

static rg_tensor *drawn(int32_t ndim, const int64_t *shape)
{
  rg_tensor *x;

  if (rg_empty(RG_F32, RG_CPU, shape, ndim, &x) != RG_OK ||
      rg_normal_(x, 0, 1, generator) != RG_OK) {
    tap_bail(rg_error_message());
  }
  return x;
}

#define DRAWN(...)                                                             \
  drawn((int32_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
        (const int64_t[]){ __VA_ARGS__ })

/* -- Calls --------------------------------------------------------------------------- */

static rg_tensor *image, *one, *mean, *var;         /* normalisations */
static rg_tensor *kernel, *signs;                   /* sketched convolution */
static rg_tensor *qkv, *omega;                      /* attention */
static rg_tensor *zx4, *zx3, *state, *w4, *w3, *b4; /* recurrence */
static rg_tensor *sequence, *wx4, *table;

static void make(void)
{
  image = DRAWN(BATCH, CHANNELS, 5, 5);
  one = DRAWN(CHANNELS);
  mean = DRAWN(CHANNELS);
  var = DRAWN(CHANNELS);
  kernel = DRAWN(8, CHANNELS, 3, 3);
  signs = DRAWN(8, 3);
  qkv = DRAWN(BATCH, LENGTH, 3 * N);
  omega = DRAWN(5, N / 2);
  zx4 = DRAWN(BATCH, 3, 4 * N);
  zx3 = DRAWN(BATCH, 3, 3 * N);
  state = DRAWN(1, BATCH, N);
  w4 = DRAWN(4 * N, N);
  w3 = DRAWN(3 * N, N);
  b4 = DRAWN(4 * N);
  sequence = DRAWN(BATCH, 3, 5);
  wx4 = DRAWN(4 * N, 5);
  table = DRAWN(BATCH, N);
}

static void unmake(void)
{
  rg_tensor *all[] = { image, one,   mean, var, kernel, signs,    qkv, omega, zx4,
                       zx3,   state, w4,   w3,  b4,     sequence, wx4, table };

  for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
    rg_tensor_release(all[i]);
  }
}

static rg_status group(rg_tensor **out)
{
  return rg_group_norm(image, one, one, 2, 1e-5, out);
}

static rg_status batch(rg_tensor **out)
{
  const rg_batch_norm_options o = {
    .eps = 1e-5, .momentum = 0.1, .axis = 1, .batch = 1, .keep = 1
  };

  return rg_batch_norm(image, one, one, mean, var, &o, out);
}

static rg_status running(rg_tensor **out)
{
  const rg_batch_norm_options o = { .eps = 1e-5, .axis = 1 };

  return rg_batch_norm(image, one, NULL, mean, var, &o, out);
}

static rg_status sketched(rg_tensor **out)
{
  return rg_sketched_conv2d(image, kernel, signs, NULL, 2, NULL, out);
}

static rg_status heads(int32_t kind, double p, int32_t causal, rg_tensor **out)
{
  const rg_heads_options o = { .heads = 2, .kind = kind, .p = p, .causal = causal };

  return rg_heads(qkv, NULL, kind == RG_HEADS_FEATURES ? omega : NULL, &o, out);
}

static rg_status tiles(rg_tensor **out)
{
  return heads(RG_HEADS_TILES, 0, 1, out);
}

static rg_status matrix(rg_tensor **out)
{
  return heads(RG_HEADS_MATRIX, 0.5, 1, out);
}

static rg_status features(rg_tensor **out)
{
  return heads(RG_HEADS_FEATURES, 0, 1, out);
}

static rg_status directions(rg_tensor **out)
{
  return rg_random_features(5, 3, generator, out);
}

static rg_status lstm(rg_tensor **out)
{
  return rg_recurrent(sequence, state, state, wx4, b4, w4, b4, RG_CELL_LSTM, 1, out, out + 1,
                      out + 2);
}

static rg_status multiplied(rg_tensor **out)
{
  return rg_recurrent(zx4, state, NULL, NULL, NULL, w4, b4, RG_CELL_LSTM, 1, out, out + 1, out + 2);
}

static rg_status gru(rg_tensor **out)
{
  return rg_recurrent(zx3, NULL, NULL, NULL, NULL, w3, NULL, RG_CELL_GRU, 0, out, out + 1, NULL);
}

static const struct {
  const char *name;
  rg_status (*run)(rg_tensor **out);
} calls[] = {
  { "group_norm", group },
  { "batch_norm", batch },
  { "batch_norm, running", running },
  { "sketched conv", sketched },
  { "heads, tiles", tiles },
  { "heads, matrix", matrix },
  { "heads, features", features },
  { "random features", directions },
  { "lstm", lstm },
  { "lstm, multiplied", multiplied },
  { "gru", gru },
};

/* -- Memory -------------------------------------------------------------------------- */

static void release(rg_tensor *out[3])
{
  for (int32_t i = 0; i < 3; i++) {
    rg_tensor_release(out[i]);
    out[i] = NULL;
  }
}

/* Refuse allocation after allocation until the call needs no more; one that failed has drawn no
** numbers of the default stream, and one that went well keeps those it drew. */
static void test_memory(void)
{
  const rg_generator *g = rg_generator_default();

  for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
    rg_tensor *out[3] = { NULL };
    int64_t before = rg_live_tensors();
    int64_t refused = 0;
    uint64_t at = rg_generator_offset(g);
    rg_status status = calls[i].run(out); /* what is kept for ever is made */
    const uint64_t drawn = rg_generator_offset(g) - at;

    is_status(status, RG_OK, calls[i].name);
    ok(calls[i].run != matrix || drawn > 0, "dropout draws");
    release(out);
    do {
      at = rg_generator_offset(g);
      rg_alloc_fail_at(++refused);
      status = calls[i].run(out);
      rg_alloc_fail_at(0);
      if (status != RG_OK &&
          (status != RG_ENOMEM || out[0] != NULL || rg_generator_offset(g) != at)) {
        break;
      }
      release(out);
    } while (status != RG_OK && refused < 10000);
    ok(status == RG_OK && refused > 1, calls[i].name);
    is_int((int64_t)(rg_generator_offset(g) - at), (int64_t)drawn, "as many numbers again");
    is_int(rg_live_tensors(), before, "no tensor is left");
  }
}

/* A body with another one in it, and no end. */
static rg_status endless(const rg_call *call, rg_tensor **out)
{
  rg_tensor *y = NULL;
  const rg_status status = matrix(&y);

  (void)out;
  rg_tensor_release(y);
  return status != RG_OK ? status : rg_fail(RG_ENOMEM, "%s: no end", call->op->name);
}

/* What a body drew that was whole goes back with the one around it. */
static void test_nested(void)
{
  const rg_op op = { .name = "endless",
                     .id = RG_OP_GROUP_NORM,
                     RG_INPUTS(RG_IN("x", INPUT, ANY)),
                     .result = { "y" },
                     .expand = endless };
  const rg_generator *g = rg_generator_default();
  const uint64_t at = rg_generator_offset(g);
  rg_tensor *out = NULL;

  is_status(rg_run_body(&op, (const rg_tensor *const[]){ image }, 1, NULL, &out), RG_ENOMEM,
            "no end");
  is_int((int64_t)rg_generator_offset(g), (int64_t)at, "no number was drawn");
}

/* -- Refusals ------------------------------------------------------------------------ */

static void says(rg_status got, rg_status want, const char *words)
{
  is_status(got, want, words);
  ok(strstr(rg_error_message(), words) != NULL, rg_error_message());
}

static rg_status lstm_of(const rg_tensor *x, const rg_tensor *h, const rg_tensor *wx,
                         const rg_tensor *bx, const rg_tensor *w, rg_tensor **out)
{
  return rg_recurrent(x, h, NULL, wx, bx, w, NULL, RG_CELL_LSTM, 0, out, out + 1, out + 2);
}

/* Each tensor with a number for each channel: of another length, or one, or of another rank. */
static void test_channels(rg_tensor **out)
{
  static const char *const of[] = { "weight", "bias", "running variance" };
  const rg_batch_norm_options o = { .eps = 1e-5, .momentum = 0.1, .axis = 1, .batch = 1 };
  rg_tensor *bad[] = { DRAWN(CHANNELS + 1), DRAWN(1), DRAWN(1, CHANNELS) };
  char words[96];

  for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
    char text[64];

    (void)rg_tensor_text(bad[i], text, sizeof(text));
    for (int k = 0; k < 3; k++) {
      rg_tensor *given[] = { one, one, var };

      given[k] = bad[i];
      (void)snprintf(words, sizeof(words), "batch_norm: the %s is %s, wanted [4]", of[k], text);
      says(rg_batch_norm(image, given[0], given[1], mean, given[2], &o, out), RG_ESHAPE, words);
      (void)snprintf(words, sizeof(words), "group_norm: the %s is %s, wanted [4]", of[k], text);
      if (k < 2) {
        says(rg_group_norm(image, given[0], given[1], 2, 1e-5, out), RG_ESHAPE, words);
      }
    }
  }
  says(rg_batch_norm(image, one, one, bad[2], var, &o, out), RG_ESHAPE,
       "batch_norm: the running mean is f32[1,4], wanted [4]");
  for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
    rg_tensor_release(bad[i]);
  }
}

/* Axes beyond both ends, a vector, groups that are none. */
static void test_axes(rg_tensor **out)
{
  static const int64_t groups[] = { 0, -1, -2, 3, 8 };
  static const int32_t axes[] = { -5, 4, 0, 2, -1, -4 };
  char words[96];

  for (size_t i = 0; i < sizeof(axes) / sizeof(*axes); i++) {
    const rg_batch_norm_options o = { .eps = 1e-5, .momentum = 0.1, .axis = axes[i], .batch = 1 };

    (void)snprintf(words, sizeof(words),
                   "batch_norm: x is f32[2,4,5,5], wanted 4 channels on axis %d",
                   axes[i] < 0 ? axes[i] : axes[i] + 1);
    says(rg_batch_norm(image, one, one, mean, var, &o, out), RG_ESHAPE, words);
  }
  for (int32_t axis = -1; axis <= 0; axis++) {
    const rg_batch_norm_options o = { .eps = 1e-5, .axis = axis };

    says(rg_batch_norm(one, NULL, NULL, mean, var, &o, out), RG_ESHAPE,
         "batch_norm: x is f32[4], wanted 4 channels");
  }
  for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
    (void)snprintf(words, sizeof(words),
                   "group_norm: x is f32[2,4,5,5], whose channels do not fall into %d groups",
                   (int)groups[i]);
    says(rg_group_norm(image, one, one, groups[i], 1e-5, out), RG_ESHAPE, words);
  }
  says(rg_group_norm(one, NULL, NULL, 1, 1e-5, out), RG_ESHAPE, "x is f32[4], whose channels");
}

static void test_refusals(void)
{
  rg_tensor *out[3] = { NULL };
  rg_batch_norm_options norm = { .axis = 2, .batch = 1 };
  rg_heads_options o = { .heads = 4 };
  rg_conv2d_options grouped = { .groups = 2 };
  rg_tensor *single = DRAWN(1, CHANNELS);

  says(rg_group_norm(image, one, one, 3, 0, out), RG_ESHAPE, "do not fall into 3 groups");
  says(rg_group_norm(image, table, NULL, 2, 0, out), RG_ESHAPE,
       "the weight is f32[2,6], wanted [4]");
  test_channels(out);
  test_axes(out);
  says(rg_group_norm(NULL, NULL, NULL, 2, 0, out), RG_EARG, "a tensor is expected");
  says(rg_batch_norm(image, NULL, NULL, mean, var, &norm, out), RG_ESHAPE, "4 channels on axis 3");
  norm.axis = 1;
  says(rg_batch_norm(single, NULL, NULL, mean, var, &norm, out), RG_EARG, "has no variance");
  says(rg_sketched_conv2d(image, kernel, w4, NULL, 1, NULL, out), RG_ESHAPE, "u f32[24,6]");
  says(rg_sketched_conv2d(image, kernel, signs, NULL, 0, NULL, out), RG_EARG, "0 terms");
  says(rg_sketched_conv2d(image, kernel, signs, NULL, 1, &grouped, out), RG_EARG, "no groups");
  says(rg_heads(qkv, NULL, NULL, &o, NULL), RG_EARG, "heads: out is NULL");
  says(rg_heads(qkv, NULL, NULL, &o, out), RG_ESHAPE, "n a multiple of 4");
  o.heads = 2;
  says(rg_heads(qkv, NULL, omega, &o, out), RG_EARG, "omega is for random features");
  o.kind = RG_HEADS_MATRIX;
  says(rg_heads(qkv, one, NULL, &o, out), RG_EARG, "goes with tiles");
  o.kind = RG_HEADS_TILES;
  o.p = 0.5;
  says(rg_heads(qkv, one, NULL, &o, out), RG_EDTYPE, "wanted bool");
  o.p = 0;
  says(rg_feature_attention(table, table, table, omega, 0, 0, out), RG_ESHAPE, "omega f32[5,3]");
  says(rg_feature_attention(table, table, table, omega, 7, 0, out), RG_EARG, "no kernel 7");
  says(rg_random_features(0, 3, NULL, out), RG_EARG, "0 features");
  says(lstm_of(zx3, NULL, NULL, NULL, w4, out), RG_ESHAPE, "[batch,length,4n], [4n,n]");
  says(lstm_of(sequence, NULL, NULL, NULL, w4, out), RG_ESHAPE,
       "x is f32[2,3,5] and w f32[24,6], wanted [batch,length,4n], [4n,n]");
  says(lstm_of(sequence, NULL, w4, NULL, w4, out), RG_ESHAPE,
       "x is f32[2,3,5], wx f32[24,6] and w f32[24,6], wanted [batch,length,m], [4n,m], [4n,n]");
  says(lstm_of(sequence, NULL, wx4, NULL, w3, out), RG_ESHAPE, "wx f32[24,5] and w f32[18,6]");
  says(lstm_of(sequence, NULL, b4, NULL, w4, out), RG_ESHAPE, "wx f32[24]");
  says(lstm_of(table, NULL, wx4, NULL, w4, out), RG_ESHAPE, "x is f32[2,6]");
  says(lstm_of(sequence, NULL, wx4, one, w4, out), RG_ESHAPE, "linear: the bias is f32[4]");
  says(lstm_of(zx4, NULL, NULL, b4, w4, out), RG_EARG, "bx is given without wx");
  says(lstm_of(sequence, table, wx4, b4, w4, out), RG_ESHAPE, "h is f32[2,6], wanted [1,2,6]");
  says(rg_recurrent(zx4, NULL, w4, NULL, NULL, w4, NULL, RG_CELL_LSTM, 0, out, out + 1, out + 2),
       RG_ESHAPE, "c is f32[24,6], wanted [1,2,6]");
  says(rg_recurrent(zx3, w3, NULL, NULL, NULL, w3, NULL, RG_CELL_GRU, 0, out, out + 1, NULL),
       RG_ESHAPE, "h is f32[18,6], wanted [1,2,6]");
  says(rg_recurrent(zx3, NULL, NULL, NULL, NULL, w3, NULL, 7, 0, out, out + 1, out + 2), RG_EARG,
       "no cell 7");
  says(rg_recurrent(zx4, NULL, NULL, NULL, NULL, w4, NULL, RG_CELL_LSTM, 0, out, out + 1, NULL),
       RG_EARG, "NULL");
  says(rg_max_pool2d(image, NULL, out), RG_EARG, "max_pool2d: there are no options");
  ok(out[0] == NULL && out[1] == NULL && out[2] == NULL, "nothing is written on failure");
  rg_tensor_release(single);
}

/* -- Recurrence ---------------------------------------------------------------------- */

static bool same(const rg_tensor *x, const rg_tensor *y)
{
  return x->_ndim == y->_ndim &&
         memcmp(x->_shape, y->_shape, (size_t)x->_ndim * sizeof(*x->_shape)) == 0 &&
         memcmp(x->_data, y->_data, (size_t)x->_count * sizeof(float)) == 0;
}

/* A layer that multiplies what comes in itself has the bits of one whose input is multiplied. */
static void test_multiplied(void)
{
  rg_tensor *out[3] = { NULL };
  rg_tensor *want[3] = { NULL };
  rg_tensor *zx = NULL;

  is_status(lstm(out), RG_OK, "a layer of x");
  is_status(rg_linear(sequence, wx4, b4, RG_ACT_NONE, &zx), RG_OK, "x, multiplied");
  is_status(
      rg_recurrent(zx, state, state, NULL, NULL, w4, b4, RG_CELL_LSTM, 1, want, want + 1, want + 2),
      RG_OK, "a layer of that");
  for (int i = 0; i < 3; i++) {
    ok(same(out[i], want[i]), "the same bits");
  }
  ok(out[1]->_ndim == 3 && out[1]->_shape[0] == 1 && out[1]->_shape[1] == BATCH &&
         out[2]->_shape[2] == N,
     "states are [1 x batch x n]");
  rg_tensor_release(zx);
  release(out);
  release(want);
}

/* -- Features ------------------------------------------------------------------------ */

static double dot(const rg_tensor *x, int64_t i, int64_t j)
{
  const float *a = (const float *)x->_data + i * x->_shape[1];
  const float *b = (const float *)x->_data + j * x->_shape[1];
  double sum = 0;

  for (int64_t k = 0; k < x->_shape[1]; k++) {
    sum += (double)a[k] * (double)b[k];
  }
  return sum;
}

/* Each row is a direction with a length, and those of one block stand at right angles. */
static void test_directions(void)
{
  enum { ROWS = 8, SIZE = 3 };
  rg_tensor *rows = NULL;

  is_status(rg_random_features(ROWS, SIZE, generator, &rows), RG_OK, "two blocks and a part");
  for (int64_t i = 0; i < ROWS; i++) {
    ok(dot(rows, i, i) > 1e-6 && dot(rows, i, i) < 100, "a length");
    for (int64_t j = i - i % SIZE; j < i; j++) {
      ok(fabs(dot(rows, i, j)) < 1e-5 * sqrt(dot(rows, i, i) * dot(rows, j, j)), "right angles");
    }
  }
  rg_tensor_release(rows);
}

/* -- Compositions ---------------------------------------------------------------------- */

/* References of three that somebody else holds, too; the first n of an order were dropped. */
static void check_refs(rg_tensor *const *held, const int *order, int n)
{
  for (int k = 0; k < 3; k++) {
    is_int(held[order[k]]->_refs, k < n ? 1 : 2, "held by the composition until it is dropped");
  }
}

/* Results that are released early, in every order of three, are released once. */
static void test_dropped(void)
{
  static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                    { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

  for (int i = 0; i < 6; i++) {
    for (int n = 0; n <= 3; n++) {
      rg_compose f = { .what = "three" };
      rg_tensor *held[3];

      for (int k = 0; k < 3; k++) {
        held[k] = rg_f_hold(rg_f_add(&f, one, one));
      }
      for (int k = 0; k < n; k++) {
        rg_f_drop(&f, held[orders[i][k]]);
        check_refs(held, orders[i], k + 1);
      }
      rg_f_drop(&f, NULL);
      rg_f_drop(&f, one);
      check_refs(held, orders[i], n);
      is_status(rg_f_end(&f), RG_OK, "the end");
      check_refs(held, orders[i], 3);
      for (int k = 0; k < 3; k++) {
        rg_tensor_release(held[k]);
      }
    }
  }
}

/* As many steps as there is room for, and one more. */
static void test_many_steps(void)
{
  for (int more = 0; more < 2; more++) {
    rg_compose f = { .what = "many" };
    rg_value x = one;
    rg_tensor *out = NULL;

    for (int i = 0; i < RG_COMPOSE_STEPS + more; i++) {
      x = rg_f_add(&f, x, one);
    }
    if (more == 0) {
      is_status(rg_f_give(&f, x, &out), RG_OK, "48 steps");
    } else {
      ok(x == NULL, "49 have no result");
      says(rg_f_give(&f, x, &out), RG_EBUG, "many: its composition has too many steps");
    }
    rg_tensor_release(out);
  }
}

/* -- Steps ----------------------------------------------------------------------------- */

/* A step of so many parameters that their list does not fit on the stack leaves none behind. */
static void test_steps(void)
{
  enum { N_PARAMS = 200, STEPS = 100 };
  rg_tensor *param[N_PARAMS];
  const rg_tensor *grad[N_PARAMS];
  rg_tensor *rate = DRAWN(1), *count;
  const double zero = 0;
  rg_status status = rg_empty(RG_F64, RG_CPU, (const int64_t[]){ 1 }, 1, &count);
  size_t before = 0;

  if (status == RG_OK) {
    status = rg_tensor_write(count, &zero, sizeof(zero));
  }
  for (int i = 0; i < N_PARAMS; i++) {
    param[i] = DRAWN(CHANNELS);
    grad[i] = one;
  }
  rg_step_inputs inputs = {
    .n = N_PARAMS, .param = param, .grad = grad, .rate = rate, .count = count
  };

  for (int i = 0; i < STEPS + 10 && status == RG_OK; i++) {
    before = i == 10 ? mallinfo2().uordblks : before;
    status = rg_sgd_step(&inputs, NULL);
  }
  is_status(status, RG_OK, "steps of 200 parameters");
  /* a gradient that fits none is told by its parameter */
  grad[2] = image;
  is_status(rg_sgd_step(&inputs, NULL), RG_ESHAPE, "a gradient of another shape");
  ok(strstr(rg_error_message(), "the gradient of parameter 3 is f32[") != NULL &&
         strncmp(rg_error_message(), "sgd_step: ", 10) == 0,
     "which, and of what");
  grad[2] = one;
  for (int which = 0; which < 4; which++) {
    rg_step_inputs wrong = inputs;

    wrong.n = which == 0 ? 0 : wrong.n;
    wrong.param = which == 1 ? NULL : wrong.param;
    wrong.grad = which == 2 ? NULL : wrong.grad;
    is_status(rg_sgd_step(which == 3 ? NULL : &wrong, NULL), RG_EARG, "no parameters");
    ok(strstr(rg_error_message(), "no parameters given") != NULL, "it says so");
  }
  ok(mallinfo2().uordblks < before + STEPS * sizeof(void *) * N_PARAMS / 2, "lists are freed");
  for (int i = 0; i < N_PARAMS; i++) {
    rg_tensor_release(param[i]);
  }
  rg_tensor_release(rate);
  rg_tensor_release(count);
}

/* A GRU has no c: one that is given is not read, and nothing of it is handed out (the end counts
** tensors). */
static void test_state_of_others(void)
{
  const int64_t shape[] = { 1, 2, 6 };
  rg_tensor *out[2] = { NULL };
  rg_tensor *c = NULL;

  is_status(rg_empty(RG_F32, RG_CPU, shape, 3, &c), RG_OK, "a c");
  is_status(rg_recurrent(zx3, NULL, c, NULL, NULL, w3, NULL, RG_CELL_GRU, 0, out, out + 1, NULL),
            RG_OK, "a GRU beside it");
  rg_tensor_release(out[0]);
  rg_tensor_release(out[1]);
  rg_tensor_release(c);
}

int main(void)
{
  int64_t tensors = rg_live_tensors();

  if (rg_generator_new(1, &generator) != RG_OK) {
    tap_bail(rg_error_message());
  }
  make();
  test_memory();
  test_nested();
  test_directions();
  test_refusals();
  test_multiplied();
  test_state_of_others();
  test_steps();
  test_dropped();
  test_many_steps();
  unmake();
  rg_generator_release(generator);
  is_int(rg_live_tensors(), tensors, "no tensor is left");
  return done();
}
