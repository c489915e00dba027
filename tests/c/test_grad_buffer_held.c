/* SPDX-License-Identifier: MIT */
/*
** When gradients are made in buffers, seen from around a pass: shapes, plans and recordings, leaves
** that have grown, passes that begin behind others, and stops at watched leaves.
*/
#include "ridge.h"
#include "tap.h"

enum { ROWS = 3, N = 4 };

static rg_tensor *filled(int64_t rows, int64_t cols, double value)
{
  const int64_t shape[2] = { rows, cols };
  rg_tensor *x = NULL;

  is_status(rg_empty(RG_F32, RG_CPU, shape, 2, &x), RG_OK, "a matrix");
  is_status(rg_fill_(x, value), RG_OK, "of one value");
  return x;
}

/* A weight, and a buffer of its gradient, marked with -1. */
typedef struct subject {
  rg_tensor *w;
  rg_tensor *buffer;
} subject;

static subject subject_of(void)
{
  subject s = { .w = filled(N, N, 2), .buffer = filled(1, N * N, -1) };

  is_status(rg_require_grad(s.w, 1), RG_OK, "a weight requires a gradient");
  is_status(rg_grad_set_buffer(s.w, s.buffer), RG_OK, "which has a buffer");
  return s;
}

static void end(subject *s)
{
  rg_tensor_release(s->w);
  rg_tensor_release(s->buffer);
}

static double first_of(const rg_tensor *x)
{
  double values[2 * N * N] = { NAN };

  return rg_tensor_to_doubles(x, values, x->_count) == RG_OK ? values[0] : NAN;
}

/* sum(x w): each number of the gradient is ROWS times value. */
static rg_tensor *product(const rg_tensor *w, double value)
{
  rg_tensor *x = filled(ROWS, N, value);
  rg_tensor *y = NULL;
  rg_tensor *sum = NULL;

  is_status(rg_matmul(x, w, &y), RG_OK, "a product");
  is_status(rg_sum(y, NULL, 0, 0, &sum), RG_OK, "and its sum");
  rg_tensor_release(x);
  rg_tensor_release(y);
  return sum;
}

static void go_back(const subject *s, double value)
{
  rg_tensor *sum = product(s->w, value);

  is_status(rg_backward(sum, NULL, 0), RG_OK, "backward");
  rg_tensor_release(sum);
}

/* -- Shapes ------------------------------------------------------------------------------------ */

/* A gradient in a buffer is held in the shape of the weight, as one that is kept as it comes. */
static void test_shape(void)
{
  subject s = subject_of();
  rg_tensor *held = NULL;

  go_back(&s, 1);
  is_status(rg_grad_held(s.w, &held), RG_OK, "the gradient");
  is_int(held != NULL && held->_ndim == 2 && held->_shape[0] == N && held->_shape[1] == N, 1,
         "has the shape of the weight");
  rg_tensor_release(held);
  end(&s);
}

/* The buffer is that of all of the gradient, through whichever part of the weight it is given. */
static void test_part(void)
{
  subject s = subject_of();
  rg_tensor *row = NULL;

  is_status(rg_grad_set_buffer(s.w, NULL), RG_OK, "no buffer any more");
  is_status(rg_narrow(s.w, 0, 1, 1, 1, &row), RG_OK, "a row of the weight");
  is_status(rg_grad_set_buffer(row, s.buffer), RG_OK, "is given one");
  go_back(&s, 1);
  close_to(first_of(s.buffer), ROWS, 0, "the gradient is made there");
  is_int(rg_grad_copied(s.w), 0, "without a copy");
  rg_tensor_release(row);
  end(&s);
}

/* Columns that require a gradient and have a buffer; then all of the matrix does. */
static void test_widened(void)
{
  rg_tensor *both = filled(N, 2 * N, 1);
  rg_tensor *buffer = filled(1, N * N, -1);
  rg_tensor *columns = NULL;
  rg_tensor *sum = NULL;
  rg_tensor *grad = NULL;

  is_status(rg_narrow(both, 1, 0, N, 1, &columns), RG_OK, "columns");
  rg_tensor_set_part(columns, 1);
  is_status(rg_require_grad(columns, 1), RG_OK, "require a gradient");
  is_status(rg_grad_set_buffer(columns, buffer), RG_OK, "which has a buffer");
  is_status(rg_sum(columns, NULL, 0, 0, &sum), RG_OK, "their sum");
  is_status(rg_backward(sum, NULL, 0), RG_OK, "backward");
  close_to(first_of(buffer), 1, 0, "fills it");
  rg_tensor_release(sum);
  is_status(rg_zero_grad(columns, 0), RG_OK, "it is forgotten");
  is_status(rg_fill_(buffer, -1), RG_OK, "and marked");
  is_status(rg_require_grad(both, 1), RG_OK, "then all columns require one");
  is_status(rg_sum(both, NULL, 0, 0, &sum), RG_OK, "the sum of all");
  is_status(rg_backward(sum, NULL, 0), RG_OK, "goes back");
  is_status(rg_grad_of(both, &grad), RG_OK, "to a gradient");
  is_int(grad != NULL && grad->_count == 2 * N * N && first_of(grad) == 1, 1, "of all of them");
  close_to(first_of(buffer), -1, 0, "for which the buffer is too small");
  rg_tensor_release(grad);
  rg_tensor_release(sum);
  rg_tensor_release(columns);
  rg_tensor_release(both);
  rg_tensor_release(buffer);
}

/* -- Plans and recordings ---------------------------------------------------------------------- */

/* A plan that made gradients in the buffer would write there at each replay, whatever lies there
** by then. */
static void test_captured(void)
{
  subject s = subject_of();
  rg_plan *plan = NULL;

  is_status(rg_capture_begin(), RG_OK, "a capture");
  go_back(&s, 1);
  is_status(rg_capture_end(&plan), RG_OK, "of a pass");
  close_to(first_of(s.buffer), -1, 0, "makes the gradient elsewhere");
  is_status(rg_zero_grad(s.w, 0), RG_OK, "it is forgotten");
  go_back(&s, 2);
  close_to(first_of(s.buffer), 2 * ROWS, 0, "a pass behind it uses the buffer");
  is_status(rg_plan_replay(plan, 1), RG_OK, "the plan runs again");
  close_to(first_of(s.buffer), 2 * ROWS, 0, "and leaves it alone");
  rg_plan_release(plan);
  end(&s);
}

/* A recording is made during a capture. */
static void test_recorded(void)
{
  subject s = subject_of();

  is_status(rg_record_begin(0), RG_ECAPTURE, "no recording by itself");
  is_status(rg_capture_begin(), RG_OK, "a capture");
  is_status(rg_record_begin(0), RG_OK, "with one");
  go_back(&s, 1);
  rg_record_cancel();
  rg_capture_cancel();
  close_to(first_of(s.buffer), -1, 0, "of a pass makes the gradient elsewhere");
  is_status(rg_zero_grad(s.w, 0), RG_OK, "it is forgotten");
  go_back(&s, 2);
  close_to(first_of(s.buffer), 2 * ROWS, 0, "a pass behind it uses the buffer");
  end(&s);
}

/* -- One pass behind another ------------------------------------------------------------------- */

/* A pass that hands out, and begins at the leaf itself, where nothing runs in between. */
static void check_handed_out(const subject *s, const char *behind)
{
  rg_backward_pass *pass = NULL;
  rg_tensor *dy = filled(N, N, 9);
  rg_tensor *dx = NULL;

  is_status(rg_zero_grad(s->w, 0), RG_OK, "no gradient");
  is_status(rg_fill_(s->buffer, -1), RG_OK, "a marked buffer");
  is_status(rg_backward_begin(s->w, dy, RG_BACKWARD_HAND_OUT, &pass), RG_OK, behind);
  is_status(rg_backward_go(pass), RG_OK, "goes");
  is_status(rg_backward_take(pass, s->w, &dx), RG_OK, "and gives");
  close_to(first_of(dx), 9, 0, "what came");
  close_to(first_of(s->buffer), -1, 0, "not in the buffer");
  rg_tensor_release(dx);
  rg_backward_end(pass);
  rg_tensor_release(dy);
}

static void test_behind(void)
{
  subject s = subject_of();
  rg_tensor *in[1] = { s.w };
  rg_tensor *dout[8] = { NULL };
  rg_tensor *out = filled(N, N, 2);
  rg_tensor *sum = NULL;
  rg_tensor *dx = NULL;
  rg_backward_pass *pass = NULL;
  int32_t recorded = 0;
  int64_t id;

  go_back(&s, 1);
  check_handed_out(&s, "a pass that hands out behind one that does not");

  is_status(rg_grad_record((const rg_tensor *const *)in, 1, &out, 1, 7, 0, &recorded), RG_OK,
            "a function of the caller's");
  is_int(recorded, 1, "is recorded");
  is_status(rg_sum(out, NULL, 0, 0, &sum), RG_OK, "and summed");
  is_status(rg_backward_begin(sum, NULL, 0, &pass), RG_OK, "a pass");
  is_status(rg_backward_go(pass), RG_ENEEDLUA, "asks");
  is_int(rg_backward_asks(pass, dout), 7, "for its gradient");
  dx = filled(N, N, 5);
  is_status(rg_backward_give(pass, &dx, 1), RG_OK, "which is given");
  close_to(first_of(s.buffer), 5, 0, "and copied into the buffer");
  rg_backward_end(pass);
  rg_tensor_release(dx);
  for (int i = 0; i < 8; i++) {
    rg_tensor_release(dout[i]);
  }
  rg_tensor_release(sum);
  rg_tensor_release(out);
  is_int(rg_grad_dead(&id, 1), 1, "its number is free");
  end(&s);

  s = subject_of();
  check_handed_out(&s, "a pass that hands out behind one that was given a gradient");
  end(&s);
}

/* Two weights that are watched: both gradients are made in their buffers, the second one behind the
** stop at the first, and each is told once. */
static void test_stops(void)
{
  subject a = subject_of();
  subject b = subject_of();
  rg_tensor *first = product(a.w, 1);
  rg_tensor *second = product(b.w, 2);
  rg_backward_pass *pass = NULL;
  int64_t ids[4];
  int told[4] = { 0 };
  int stops = 0;
  rg_status status;

  is_status(rg_grad_watch(a.w, 1), RG_OK, "one is watched");
  is_status(rg_grad_watch(b.w, 2), RG_OK, "and the other");
  is_status(rg_add_(first, second), RG_OK, "a sum of both");
  is_status(rg_backward_begin(first, NULL, RG_BACKWARD_TELL, &pass), RG_OK, "goes back");
  while ((status = rg_backward_go(pass)) == RG_ENEEDLUA && stops++ < 8) {
    told[rg_backward_leaf(pass) & 3]++;
    if (stops == 1) {
      subject between = subject_of();

      check_handed_out(&between, "a pass that hands out at the stop");
      end(&between);
    }
  }
  is_status(status, RG_OK, "to the end");
  is_int(told[1] == 1 && told[2] == 1 && stops == 2, 1, "each is told once");
  close_to(first_of(a.buffer), ROWS, 0, "the one is in its buffer");
  close_to(first_of(b.buffer), 2 * ROWS, 0, "and the other");
  is_int(rg_grad_copied(a.w) + rg_grad_copied(b.w), 0, "nothing is copied");
  rg_backward_end(pass);
  rg_tensor_release(first);
  rg_tensor_release(second);
  end(&a);
  end(&b);
  is_int(rg_grad_dead(ids, 4), 2, "both numbers are free");
}

int main(void)
{
  test_shape();
  test_part();
  test_widened();
  test_captured();
  test_recorded();
  test_behind();
  test_stops();
  is_int(rg_grad_calls(), 0, "no call is left");
  is_int(rg_memory_of(RG_CPU)->live_bytes, 0, "and no memory");
  return done();
}
