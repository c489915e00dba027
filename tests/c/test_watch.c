/* SPDX-License-Identifier: MIT */
/*
** Watched leaves: where a backward pass stops for them, in which order, whose it is within another
** pass, and what is left when memory runs out.
*/
#include "ridge.h"
#include "tap.h"

enum { N = 4 };

/* A leaf of four elements; number 0: nobody watches it. */
static rg_tensor *leaf(double value, int64_t number)
{
  const int64_t shape[1] = { N };
  rg_tensor *x = NULL;

  is_status(rg_empty(RG_F32, RG_CPU, shape, 1, &x), RG_OK, "a leaf");
  is_status(rg_fill_(x, value), RG_OK, "with a value");
  is_status(rg_require_grad(x, 1), RG_OK, "that requires a gradient");
  if (number > 0) {
    is_status(rg_grad_watch(x, number), RG_OK, "and is watched");
  }
  return x;
}

static double grad_at_0(const rg_tensor *x)
{
  rg_tensor *grad = NULL;
  double values[N] = { NAN };

  if (rg_grad_of(x, &grad) == RG_OK && grad != NULL) {
    if (rg_tensor_to_doubles(grad, values, N) != RG_OK) {
      values[0] = NAN;
    }
    rg_tensor_release(grad);
  }
  return values[0];
}

/* sum(((a b) c) + b): c is complete first, then b, then a. */
static rg_status make(const rg_tensor *a, const rg_tensor *b, const rg_tensor *c, rg_tensor **out)
{
  rg_tensor *list[4] = { NULL };
  rg_status status = rg_mul(a, b, &list[0]);

  status = status == RG_OK ? rg_mul(list[0], c, &list[1]) : status;
  status = status == RG_OK ? rg_add(list[1], b, &list[2]) : status;
  status = status == RG_OK ? rg_sum(list[2], NULL, 0, 0, &list[3]) : status;
  for (int i = 0; i < 3; i++) {
    rg_tensor_release(list[i]);
  }
  *out = status == RG_OK ? list[3] : NULL;
  return status;
}

/* The numbers a pass from y tells, as digits; each is complete when it is told. */
static rg_status told(rg_tensor *y, int32_t flags, rg_backward_pass *outer, int64_t *out)
{
  rg_backward_pass *pass = NULL;
  rg_status status = rg_backward_begin(y, NULL, flags, &pass);

  *out = 0;
  if (status != RG_OK) {
    return status;
  }
  if (outer != NULL) {
    rg_backward_within(pass, outer);
  }
  while ((status = rg_backward_go(pass)) == RG_ENEEDLUA) {
    *out = 10 * *out + rg_backward_leaf(pass);
  }
  if (status == RG_OK) {
    is_int(rg_backward_leaf(pass), 0, "no leaf is told at the end");
  }
  rg_backward_end(pass);
  return status;
}

static void test_order(void)
{
  rg_tensor *a = leaf(2, 1);
  rg_tensor *b = leaf(3, 2);
  rg_tensor *c = leaf(5, 3);
  rg_tensor *y = NULL;
  int64_t list;

  is_status(make(a, b, c, &y), RG_OK, "a loss");
  is_status(told(y, RG_BACKWARD_TELL | RG_BACKWARD_RETAIN, NULL, &list), RG_OK,
            "a pass that tells");
  /* the product of a and b takes both, in the order of its inputs */
  is_int(list, 312, "c is complete behind its product, a and b behind theirs");
  close_to(grad_at_0(c), 6, 0, "c has its gradient");
  close_to(grad_at_0(b), 11, 0, "so has b");
  close_to(grad_at_0(a), 15, 0, "so has a");
  is_status(rg_grad_watch(a, 0), RG_OK, "a is watched no longer");
  is_int(rg_grad_watched(a), 0, "and has no number");
  is_status(told(y, RG_BACKWARD_TELL | RG_BACKWARD_RETAIN, NULL, &list), RG_OK, "once more");
  is_int(list, 32, "it is not told");
  close_to(grad_at_0(a), 30, 0, "and has twice its gradient");
  is_status(told(y, RG_BACKWARD_TELL | RG_BACKWARD_RETAIN | RG_BACKWARD_HAND_OUT, NULL, &list),
            RG_OK, "a pass that hands out");
  is_int(list, 0, "tells nobody");
  is_status(told(y, RG_BACKWARD_RETAIN, NULL, &list), RG_OK, "nor does one that was not asked to");
  is_int(list, 0, "which does not stop");
  is_status(rg_backward(y, NULL, 0), RG_OK, "nor the whole pass in one call");
  close_to(grad_at_0(b), 44, 0, "all add to gradients, but the one that hands out");
  rg_tensor_release(y);
  rg_tensor_release(a);
  rg_tensor_release(b);
  rg_tensor_release(c);
}

static void test_root(void)
{
  const int64_t one[1] = { 1 };
  rg_tensor *x = NULL;
  int64_t list;

  is_status(rg_empty(RG_F32, RG_CPU, one, 1, &x), RG_OK, "a leaf of one element");
  is_status(rg_fill_(x, 1), RG_OK, "of 1");
  is_status(rg_grad_watch(x, 7), RG_EARG, "which cannot be watched without a gradient");
  is_status(rg_require_grad(x, 1), RG_OK, "requires one");
  is_status(rg_grad_watch(x, -1), RG_EARG, "not under a number below 0");
  is_status(rg_grad_watch(x, 7), RG_OK, "is watched");
  is_status(told(x, RG_BACKWARD_TELL, NULL, &list), RG_OK, "and is the root");
  is_int(list, 7, "it is told, though no call reads it");
  rg_tensor_release(x);
}

/* A function that stands for a part which is computed again: a pass over b and c in it. */
static void test_within(void)
{
  rg_tensor *a = leaf(2, 1);
  rg_tensor *b = leaf(3, 2);
  rg_tensor *c = leaf(5, 3);
  rg_tensor *inner = NULL;
  rg_tensor *outer = NULL;
  rg_tensor *result = NULL;
  rg_tensor *both = NULL;
  rg_backward_pass *pass = NULL;
  rg_tensor *dx[1];
  const rg_tensor *in[1] = { a };
  int64_t dead[4];
  int64_t list = 0;
  int64_t inside = 0;
  int32_t recorded = 0;
  const int64_t shape[1] = { N };

  is_int(rg_grad_dead(dead, 4), 3, "leaves of before are gone");
  is_status(rg_empty(RG_F32, RG_CPU, shape, 1, &result), RG_OK, "a result");
  is_status(rg_fill_(result, 1), RG_OK, "of 1");
  is_status(rg_grad_record(in, 1, &result, 1, 9, RG_FUNCTION_GOES_BACK, &recorded), RG_OK,
            "of a function that goes back itself");
  is_status(make(a, b, c, &inner), RG_OK, "what it computes again");
  is_status(rg_mul(result, b, &both), RG_OK, "b is read outside, too");
  is_status(rg_sum(both, NULL, 0, 0, &outer), RG_OK, "of the loss");
  is_status(rg_backward_begin(outer, NULL, RG_BACKWARD_TELL, &pass), RG_OK, "a pass");
  is_status(rg_backward_go(pass), RG_ENEEDLUA, "stops");
  is_int(rg_backward_leaf(pass), 0, "not for b, which the function may add to");
  is_status(told(inner, RG_BACKWARD_TELL, pass, &inside), RG_OK, "a pass within it");
  dx[0] = result;
  is_status(rg_backward_give(pass, dx, 1), RG_OK, "the gradient of the function");
  while (rg_backward_go(pass) == RG_ENEEDLUA) {
    list = 10 * list + rg_backward_leaf(pass);
  }
  rg_backward_end(pass);
  is_int(list, 213, "the outer pass tells each once: its own first, then what was added within");
  close_to(grad_at_0(b), 12, 0, "when both had added to it");
  rg_tensor_release(inner);
  rg_tensor_release(outer);
  rg_tensor_release(both);
  rg_tensor_release(result);
  is_int(rg_grad_dead(dead, 4), 1, "the function is gone");
  rg_tensor_release(a);
  rg_tensor_release(b);
  is_int(rg_grad_dead(dead, 4), 2, "and so are two leaves");
  is_int(dead[0] + dead[1], 3, "of the two numbers");
  rg_tensor_release(c);
  is_int(rg_grad_dead(dead, 4), 1, "then the third");
}

/* A call that cannot be remembered for lack of memory says so, and is not made. */
static void test_no_memory(void)
{
  rg_tensor *x = leaf(2, 0);
  rg_tensor *y = NULL;
  rg_status status = RG_ENOMEM;
  bool said = false;

  for (int64_t n = 1; n < 100 && status == RG_ENOMEM; n++) {
    rg_alloc_fail_at(n);
    status = rg_mul(x, x, &y);
    rg_alloc_fail_at(0);
    said = said || (status == RG_ENOMEM &&
                    strcmp(rg_error_message(),
                           "mul: no memory to remember the call for its gradient") == 0);
  }
  is_status(status, RG_OK, "with memory it is made");
  ok(said, "without, it says what the memory is for");
  rg_tensor_release(y);
  rg_tensor_release(x);
}

int main(void)
{
  test_order();
  test_root();
  test_within();
  test_no_memory();
  is_int(rg_grad_calls(), 0, "no call is left");
  is_int(rg_memory_of(RG_CPU)->live_bytes, 0, "and no memory");
  return done();
}
