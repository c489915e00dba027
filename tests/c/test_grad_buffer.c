/* SPDX-License-Identifier: MIT */
/*
** Gradients that are made in memory of the caller's: when they are, when they are copied there, and
** when that memory is left alone because somebody still has what is in it.
*/
#include "ridge.h"
#include "tap.h"

enum { ROWS = 3, N = 4 };

static rg_tensor *filled(int32_t dtype, int64_t rows, int64_t cols, double value)
{
  const int64_t shape[2] = { rows, cols };
  rg_tensor *x = NULL;

  is_status(rg_empty(dtype, RG_CPU, shape, 2, &x), RG_OK, "a matrix");
  is_status(rg_fill_(x, value), RG_OK, "of one value");
  return x;
}

/* An arena, and a range of it for the gradient of a weight that requires one. */
typedef struct subject {
  rg_tensor *w;
  rg_tensor *arena;
  rg_tensor *range;
} subject;

static subject subject_of(void)
{
  subject s = { .w = filled(RG_F32, N, N, 2) };
  const int64_t n = 3 * N * N;

  is_status(rg_require_grad(s.w, 1), RG_OK, "a weight requires a gradient");
  is_status(rg_empty(RG_F32, RG_CPU, &n, 1, &s.arena), RG_OK, "an arena");
  is_status(rg_fill_(s.arena, -1), RG_OK, "which is marked");
  is_status(rg_narrow(s.arena, 0, N * N, N * N, 1, &s.range), RG_OK, "a range of it");
  is_status(rg_grad_set_buffer(s.w, s.range), RG_OK, "is the buffer of the gradient");
  return s;
}

static void end(subject *s)
{
  rg_tensor_release(s->w);
  rg_tensor_release(s->range);
  rg_tensor_release(s->arena);
}

/* The first number of the range; what lies around it is as it was. */
static double in_range(const subject *s)
{
  double all[3 * N * N];

  if (rg_tensor_to_doubles(s->arena, all, 3 * N * N) != RG_OK) {
    return NAN;
  }
  is_int(all[N * N - 1] == -1 && all[2 * N * N] == -1, 1, "around the range nothing is written");
  return all[N * N];
}

static double gradient(const subject *s)
{
  rg_tensor *grad = NULL;
  double values[N * N] = { NAN };

  if (rg_grad_of(s->w, &grad) == RG_OK && grad != NULL) {
    if (rg_tensor_to_doubles(grad, values, N * N) != RG_OK) {
      values[0] = NAN;
    }
    rg_tensor_release(grad);
  }
  return values[0];
}

/* sum(x w), so that each number of the gradient is that of rows of x, value each. */
static rg_tensor *product(const subject *s, double value)
{
  rg_tensor *x = filled(RG_F32, ROWS, N, value);
  rg_tensor *y = NULL;
  rg_tensor *sum = NULL;

  is_status(rg_matmul(x, s->w, &y), RG_OK, "a product");
  is_status(rg_sum(y, NULL, 0, 0, &sum), RG_OK, "and its sum");
  rg_tensor_release(x);
  rg_tensor_release(y);
  return sum;
}

static void go_back(const subject *s, double value)
{
  rg_tensor *sum = product(s, value);

  is_status(rg_backward(sum, NULL, 0), RG_OK, "backward");
  rg_tensor_release(sum);
}

/* -- What is made there ------------------------------------------------------------------------ */

static void test_made(void)
{
  subject s = subject_of();
  int32_t had = -1;

  go_back(&s, 1);
  close_to(in_range(&s), ROWS, 0, "the product writes into the buffer");
  close_to(gradient(&s), ROWS, 0, "which is the gradient");
  is_int(rg_grad_copied(s.w), 0, "without a copy");
  go_back(&s, 2);
  close_to(in_range(&s), 3 * ROWS, 0, "another pass adds to it in place");
  is_status(rg_zero_grad(s.w, 0), RG_OK, "it is forgotten");
  go_back(&s, 4);
  close_to(in_range(&s), 4 * ROWS, 0, "and is made in the buffer again");
  is_status(rg_grad_into_buffer(s.w, &had), RG_OK, "it is asked for");
  is_int(had, 1, "and there");
  is_int(rg_grad_copied(s.w), 0, "still without a copy");
  is_status(rg_zero_grad(s.w, 0), RG_OK, "it is forgotten");
  is_status(rg_grad_into_buffer(s.w, &had), RG_OK, "and asked for");
  is_int(had, 0, "there is none");
  close_to(in_range(&s), 0, 0, "which is zeros in the buffer");
  is_status(rg_fill_(s.range, 7), RG_OK, "another process writes there");
  is_status(rg_grad_from_buffer(s.w), RG_OK, "which is the gradient");
  close_to(gradient(&s), 7, 0, "as it stands there");
  end(&s);
}

static void test_copied(void)
{
  subject s = subject_of();
  rg_tensor *other = filled(RG_F32, N, N, 1);
  rg_tensor *sum = NULL;
  rg_tensor *dy = filled(RG_F32, N, N, 5);
  int32_t had = -1;

  is_status(rg_add(s.w, other, &sum), RG_OK, "a sum hands on what comes back");
  is_status(rg_backward(sum, dy, 0), RG_OK, "backward");
  close_to(in_range(&s), 5, 0, "it is copied into the buffer");
  is_int(rg_grad_copied(s.w), N * N * 4, "and counted");
  rg_tensor_release(sum);
  is_status(rg_grad_set_buffer(s.w, NULL), RG_OK, "without a buffer");
  is_status(rg_zero_grad(s.w, 0), RG_OK, "the gradient");
  go_back(&s, 1);
  close_to(in_range(&s), 5, 0, "is elsewhere");
  is_status(rg_grad_set_buffer(s.w, s.range), RG_OK, "with one");
  is_status(rg_grad_into_buffer(s.w, &had), RG_OK, "it comes there");
  close_to(in_range(&s), ROWS, 0, "as it is");
  is_int(rg_grad_copied(s.w), 2 * N * N * 4, "by a copy");
  rg_tensor_release(other);
  rg_tensor_release(dy);
  end(&s);
}

/* -- What is left alone ------------------------------------------------------------------------ */

static void test_kept(void)
{
  subject s = subject_of();
  rg_tensor *kept = NULL;
  rg_tensor *mine = NULL;

  go_back(&s, 1);
  is_status(rg_grad_exchange(s.w, NULL, &kept), RG_OK, "somebody takes the gradient away");
  go_back(&s, 2);
  close_to(in_range(&s), ROWS, 0, "what he has stays");
  close_to(gradient(&s), 2 * ROWS, 0, "beside a new one");
  is_status(rg_grad_exchange(s.w, kept, &mine), RG_OK, "and he brings it back");
  close_to(gradient(&s), ROWS, 0, "as it was");
  rg_tensor_release(kept);
  rg_tensor_release(mine);
  end(&s);
}

/* A gradient that a call has saved is read in the pass behind the call that makes the next one. */
static void test_saved(void)
{
  subject s = subject_of();
  rg_tensor *z = filled(RG_F32, N, N, 1);
  rg_tensor *grad = NULL;
  rg_tensor *y[3] = { NULL };
  rg_tensor *dz = NULL;
  double values[N * N] = { NAN };

  is_status(rg_require_grad(z, 1), RG_OK, "another leaf");
  go_back(&s, 1);
  is_status(rg_grad_of(s.w, &grad), RG_OK, "the gradient");
  is_status(rg_zero_grad(s.w, 0), RG_OK, "is forgotten");
  is_status(rg_mul(z, grad, &y[0]), RG_OK, "and multiplied with");
  is_status(rg_sum(y[0], NULL, 0, 0, &y[1]), RG_OK, "in a sum");
  y[2] = product(&s, 5);
  is_status(rg_add_(y[1], y[2]), RG_OK, "in front of a product");
  is_status(rg_backward(y[1], NULL, 0), RG_OK, "backward reads it");
  is_status(rg_grad_of(z, &dz), RG_OK, "for the other leaf");
  is_status(rg_tensor_to_doubles(dz, values, N * N), RG_OK, "whose gradient it is");
  close_to(values[0], ROWS, 0, "as it was");
  close_to(gradient(&s), 5 * ROWS, 0, "beside the next one");
  for (int i = 0; i < 3; i++) {
    rg_tensor_release(y[i]);
  }
  rg_tensor_release(dz);
  rg_tensor_release(grad);
  rg_tensor_release(z);
  end(&s);
}

static void test_handed_out(void)
{
  subject s = subject_of();
  rg_backward_pass *pass = NULL;
  rg_tensor *sum;
  rg_tensor *dx = NULL;

  go_back(&s, 1);
  is_status(rg_zero_grad(s.w, 0), RG_OK, "no gradient");
  sum = product(&s, 2);
  is_status(rg_backward_begin(sum, NULL, RG_BACKWARD_HAND_OUT, &pass), RG_OK, "a pass hands out");
  is_status(rg_backward_go(pass), RG_OK, "goes");
  is_status(rg_backward_take(pass, s.w, &dx), RG_OK, "and gives");
  rg_backward_end(pass);
  close_to(in_range(&s), ROWS, 0, "another tensor than the buffer");
  rg_tensor_release(dx);
  rg_tensor_release(sum);
  end(&s);
}

/* One leaf that is both inputs of a call: one of the two gradients is made elsewhere, or both. */
static void test_twice(void)
{
  subject s = subject_of();
  rg_tensor *y = NULL;
  rg_tensor *sum = NULL;

  is_status(rg_matmul(s.w, s.w, &y), RG_OK, "a weight times itself");
  is_status(rg_sum(y, NULL, 0, 0, &sum), RG_OK, "summed");
  is_status(rg_backward(sum, NULL, 0), RG_OK, "backward");
  close_to(gradient(&s), 2 * 2 * N, 0, "has both gradients");
  close_to(in_range(&s), 2 * 2 * N, 0, "in the buffer");
  rg_tensor_release(y);
  rg_tensor_release(sum);
  end(&s);
}

/* What comes in lies in the buffer: it is read before anything is written there. */
static void test_reads(void)
{
  subject s = subject_of();
  rg_tensor *x = filled(RG_F32, N, N, 1);
  rg_tensor *grad = NULL;
  rg_tensor *y = NULL;

  go_back(&s, 1);
  is_status(rg_grad_of(s.w, &grad), RG_OK, "the gradient");
  is_status(rg_zero_grad(s.w, 0), RG_OK, "is forgotten");
  is_status(rg_matmul(x, s.w, &y), RG_OK, "and comes in");
  is_status(rg_backward(y, grad, 0), RG_OK, "to a product");
  is_int(gradient(&s) == N * ROWS && in_range(&s) == N * ROWS, 1, "which reads it as it was");
  is_int(rg_grad_copied(s.w), N * N * 4, "and is copied behind that");
  rg_tensor_release(x);
  rg_tensor_release(grad);
  rg_tensor_release(y);
  end(&s);
}

/* Who watches gradients learns that one is another tensor, and that its numbers are others. */
static void test_told(void)
{
  subject s = subject_of();
  rg_tensor *other = filled(RG_F32, N, N, 3);
  rg_tensor *grad = NULL;
  int64_t changes;
  uint64_t version;
  int32_t had;

  is_status(rg_grad_set_buffer(s.w, NULL), RG_OK, "without a buffer");
  go_back(&s, 1);
  is_status(rg_grad_set_buffer(s.w, s.range), RG_OK, "with one");
  changes = rg_grad_changes();
  is_status(rg_grad_into_buffer(s.w, &had), RG_OK, "the gradient comes there");
  is_int(rg_grad_changes() > changes, 1, "and is another tensor");
  changes = rg_grad_changes();
  is_status(rg_grad_into_buffer(s.w, &had), RG_OK, "once more");
  is_int(rg_grad_changes(), changes, "it is the same");
  is_status(rg_grad_of(s.w, &grad), RG_OK, "the gradient");
  version = rg_tensor_version(grad);
  is_status(rg_grad_from_buffer(s.w), RG_OK, "others have written it");
  is_int(rg_tensor_version(grad) > version, 1, "which its version says");
  is_int(rg_grad_changes(), changes, "while it is the same tensor");
  rg_tensor_release(grad);
  is_status(rg_grad_exchange(s.w, other, &grad), RG_OK, "in place of it comes another");
  rg_tensor_release(grad);
  changes = rg_grad_changes();
  is_status(rg_grad_from_buffer(s.w), RG_OK, "then what is in the buffer is the gradient");
  is_int(rg_grad_changes() > changes, 1, "another tensor");
  close_to(gradient(&s), ROWS, 0, "of the buffer's numbers");
  rg_tensor_release(other);
  end(&s);
}

/* Another buffer for the same gradient, of the same size: the next pass makes it there. */
static void test_moved(void)
{
  subject s = subject_of();
  rg_tensor *next = NULL;
  double values[N * N];

  go_back(&s, 1);
  is_status(rg_narrow(s.arena, 0, 2 * N * N, N * N, 1, &next), RG_OK, "the range behind it");
  is_status(rg_grad_set_buffer(s.w, next), RG_OK, "is the buffer now");
  is_status(rg_zero_grad(s.w, 0), RG_OK, "without a gradient");
  go_back(&s, 4);
  is_status(rg_tensor_to_doubles(next, values, N * N), RG_OK, "what is there");
  close_to(values[0], 4 * ROWS, 0, "is what the pass made");
  is_status(rg_tensor_to_doubles(s.range, values, N * N), RG_OK, "where it was before");
  close_to(values[0], ROWS, 0, "nothing is written any more");
  rg_tensor_release(next);
  end(&s);
}

/* A weight that is seen transposed, and whose gradient is not all one number. */
static void test_transposed(void)
{
  const int64_t shape[2] = { 2, N };
  double values[2 * N];
  rg_tensor *x[6] = { NULL }; /* w, transposed, factors, product, sum, gradient */
  rg_tensor *arena = filled(RG_F32, 1, 2 * N, -1);
  int32_t had;

  for (int i = 0; i < 2 * N; i++) {
    values[i] = i + 1;
  }
  is_status(rg_tensor_from_doubles(values, 2 * N, RG_F32, shape, 2, &x[0]), RG_OK, "a weight");
  is_status(rg_clone(x[0], &x[2]), RG_OK, "factors");
  is_status(rg_require_grad(x[0], 1), RG_OK, "requires a gradient");
  is_status(rg_transpose(x[0], 0, 1, &x[1]), RG_OK, "transposed");
  is_status(rg_grad_set_buffer(x[1], arena), RG_OK, "has a buffer");
  is_status(rg_mul(x[0], x[2], &x[3]), RG_OK, "a product");
  is_status(rg_sum(x[3], NULL, 0, 0, &x[4]), RG_OK, "and its sum");
  is_status(rg_backward(x[4], NULL, 0), RG_OK, "backward");
  is_status(rg_grad_into_buffer(x[1], &had), RG_OK, "the gradient is there");
  is_status(rg_tensor_to_doubles(arena, values, 2 * N), RG_OK, "in the order of memory");
  is_int(values[1] == 2 && values[N] == N + 1, 1, "which is the weight's");
  is_status(rg_grad_from_buffer(x[1]), RG_OK, "and from there");
  is_status(rg_grad_of(x[0], &x[5]), RG_OK, "the gradient");
  is_status(rg_tensor_to_doubles(x[5], values, 2 * N), RG_OK, "of the weight");
  is_int(values[1] == 2 && values[N] == N + 1, 1, "is the factors");
  for (int i = 0; i < 6; i++) {
    rg_tensor_release(x[i]);
  }
  rg_tensor_release(arena);
}

static void test_refused(void)
{
  subject s = subject_of();
  rg_tensor *whole = filled(RG_I32, N, N, 1);
  rg_tensor *result = product(&s, 1);
  rg_tensor *one = filled(RG_F32, 1, 1, 0);
  rg_tensor *plain = filled(RG_F32, N, N, 1);
  rg_tensor *half = filled(RG_BF16, N, N, 1);
  rg_tensor *small = filled(RG_F32, N, 1, 1);
  rg_tensor *turned = NULL;
  int32_t had;

  is_status(rg_transpose(plain, 0, 1, &turned), RG_OK, "a transposed matrix");
  is_status(rg_grad_set_buffer(plain, s.range), RG_EARG, "no leaf");
  is_status(rg_grad_set_buffer(s.w, half), RG_EARG, "another type");
  is_status(rg_grad_set_buffer(s.w, whole), RG_EARG, "another type of the same size");
  is_status(rg_grad_set_buffer(result, one), RG_EARG, "no leaf, but tracked");
  is_status(rg_grad_set_buffer(s.w, small), RG_EARG, "too small");
  is_status(rg_grad_set_buffer(s.w, turned), RG_EARG, "not contiguous");
  is_status(rg_grad_into_buffer(plain, &had), RG_EARG, "none is there");
  is_status(rg_grad_from_buffer(plain), RG_EARG, "none is there");
  go_back(&s, 1);
  close_to(in_range(&s), ROWS, 0, "the buffer is as it was");
  rg_tensor_release(whole);
  rg_tensor_release(result);
  rg_tensor_release(one);
  rg_tensor_release(plain);
  rg_tensor_release(half);
  rg_tensor_release(small);
  rg_tensor_release(turned);
  end(&s);
}

int main(void)
{
  test_made();
  test_copied();
  test_kept();
  test_saved();
  test_handed_out();
  test_twice();
  test_reads();
  test_told();
  test_moved();
  test_transposed();
  test_refused();
  is_int(rg_grad_calls(), 0, "no call is left");
  is_int(rg_memory_of(RG_CPU)->live_bytes, 0, "and no memory");
  return done();
}
