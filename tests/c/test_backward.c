/* SPDX-License-Identifier: MIT */
/*
** The backward pass step by step: where it stops for a function, what it holds meanwhile, what it
** hands out and what it adds, and that nothing is left of a pass, wherever it ended.
*/
#include "ridge.h"
#include "tap.h"

enum { N = 16, BYTES = N * 4, PATH = 4711 };

static void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

static rg_tensor *vector(double value, int32_t n)
{
  const int64_t shape[1] = { n };
  rg_tensor *x = NULL;

  must(rg_empty(RG_F32, RG_CPU, shape, 1, &x));
  must(rg_fill_(x, value));
  return x;
}

static rg_tensor *leaf(double value)
{
  rg_tensor *x = vector(value, N);

  must(rg_require_grad(x, 1));
  return x;
}

/* Its first and last element are the same number; NAN where they are not. */
static double value_of(const rg_tensor *x)
{
  double values[N] = { 0 };

  if (x == NULL || rg_tensor_to_doubles(x, values, N) != RG_OK || values[0] != values[N - 1]) {
    return NAN;
  }
  return values[0];
}

static double grad_of(const rg_tensor *x)
{
  rg_tensor *grad = NULL;
  double value;

  must(rg_grad_of(x, &grad));
  value = value_of(grad);
  rg_tensor_release(grad);
  return value;
}

static bool has_grad(const rg_tensor *x)
{
  rg_tensor *grad = NULL;
  bool has;

  must(rg_grad_of(x, &grad));
  has = grad != NULL;
  rg_tensor_release(grad);
  return has;
}

/* What is held now, to be compared with later. */
typedef struct held {
  int64_t tensors;
  int64_t blocks;
  int64_t bytes;
  int64_t calls;
  int64_t saved;
} held;

static held held_now(void)
{
  const rg_memory *m = rg_memory_of(0);

  return (held){ rg_live_tensors(), m->n_blocks, m->live_bytes, rg_grad_calls(),
                 rg_grad_saved_bytes() };
}

static void is_held(held then, int64_t tensors, const char *what)
{
  held now = held_now();

  is_int(now.tensors - then.tensors, tensors, what);
  ok(tensors > 0 || (now.blocks == then.blocks && now.bytes == then.bytes),
     "in tensors and memory");
  ok(now.calls == then.calls && now.saved == then.saved, "nor is a call, or what it had saved");
}

/* -- Functions -------------------------------------------------------------------------------- */

/* x -> z = 3 (f(2 x) + 2 x), with f a function of the caller's: what it gives is a plain tensor. */
typedef struct asking {
  rg_tensor *x, *a, *out, *sum, *z;
} asking;

static asking asking_of(int32_t flags)
{
  asking g = { .x = leaf(1) };
  int32_t recorded = 0;

  must(rg_mul_scalar(g.x, 2, 0, &g.a));
  g.out = vector(5, N);
  is_status(rg_grad_record((const rg_tensor *const[]){ g.a }, 1, &g.out, 1, PATH, flags, &recorded),
            RG_OK, "a function of the caller's");
  is_int(recorded, 1, "is recorded");
  must(rg_add(g.out, g.a, &g.sum));
  must(rg_mul_scalar(g.sum, 3, 0, &g.z));
  return g;
}

static void asking_gone(asking *g)
{
  int64_t ids[2];

  rg_tensor_release(g->x);
  rg_tensor_release(g->a);
  rg_tensor_release(g->out);
  rg_tensor_release(g->sum);
  rg_tensor_release(g->z);
  is_int(rg_grad_dead(ids, 2), 1, "one number is free");
  is_int(ids[0], PATH, "the function's");
}

/* Numbers of as many leaves as there were, in as many pieces as they are asked for. */
static void test_many_numbers(void)
{
  enum { MANY = 3000 };
  static int64_t ids[MANY + 1];
  bool seen[MANY + 1] = { false };
  int64_t all = 0;

  for (int64_t id = 1; id <= MANY; id++) {
    const int64_t shape[1] = { 1 };
    rg_tensor *x = NULL;

    must(rg_empty(RG_F32, RG_CPU, shape, 1, &x));
    must(rg_require_grad(x, 1));
    must(rg_grad_watch(x, id));
    rg_tensor_release(x);
  }
  for (int64_t n = 0; (n = rg_grad_dead(ids, 70)) > 0;) {
    for (int64_t i = 0; i < n; i++) {
      if (ids[i] > 0 && ids[i] <= MANY && !seen[ids[i]]) {
        seen[ids[i]] = true;
        all++;
      }
    }
  }
  is_int(all, MANY, "each number of a leaf that is gone is told once");
}

static void test_function(int32_t flags)
{
  held before = held_now();
  asking g = asking_of(0);
  rg_tensor *dz = vector(1, N);
  rg_tensor *dout[8] = { NULL };
  rg_tensor *dx = vector(10, N);
  rg_tensor *wrong = vector(10, 3);
  rg_tensor *taken = vector(0, 1);
  rg_tensor *was = taken;
  rg_backward_pass *pass = NULL;
  int64_t stands;

  must(rg_backward_begin(g.z, dz, flags, &pass));
  is_int(rg_backward_asks(pass, dout), 0, "nothing is asked before it goes");
  is_status(rg_backward_give(pass, &dx, 1), RG_EARG, "and nothing can be given");
  is_status(rg_backward_go(pass), RG_ENEEDLUA, "the pass stops");
  is_int(rg_backward_asks(pass, dout), PATH, "for the function");
  ok(value_of(dout[0]) == 3 && dout[1] == NULL, "with its gradient, and no other");
  rg_tensor_release(dout[0]);
  is_status(rg_backward_go(pass), RG_EARG, "it does not go on alone");
  must(rg_backward_take(pass, g.x, &taken));
  ok(taken == NULL, "and hands out nothing meanwhile");
  is_status(rg_backward_give(pass, &dx, 2), RG_EARG, "one gradient is wanted");
  is_status(rg_backward_give(pass, &wrong, 1), RG_ESHAPE, "of the input's shape");
  stands = rg_live_tensors();
  is_status(rg_backward_give(pass, &dx, 1), RG_OK, "it is given");
  is_int(rg_live_tensors() - stands, -1, "what had come in is let go at once");
  is_int(rg_backward_asks(pass, dout), 0, "nothing is asked any more");
  is_status(rg_backward_go(pass), RG_OK, "it goes on to the end");
  if ((flags & RG_BACKWARD_HAND_OUT) != 0) {
    must(rg_backward_take(pass, g.x, &taken));
    ok(value_of(taken) == 26, "and hands out the sum of both ways");
    ok(!rg_requires_grad(taken), "which nobody differentiates again");
    rg_tensor_release(taken);
    ok(!has_grad(g.x), "and adds it nowhere");
  } else {
    ok(grad_of(g.x) == 26, "the sum of both ways is there");
  }
  rg_backward_end(pass);
  rg_tensor_release(was);
  rg_tensor_release(wrong);
  rg_tensor_release(dx);
  rg_tensor_release(dz);
  asking_gone(&g);
  is_held(before, 0, "nothing is left");
}

/* What a function gives is no part of what is differentiated, unless gradients are recorded. */
static void test_recorded(void)
{
  for (int32_t create = 0; create < 2; create++) {
    held before = held_now();
    asking g = asking_of(0);
    rg_tensor *w = leaf(10);
    rg_tensor *dx = NULL;
    rg_tensor *taken = NULL;
    rg_backward_pass *pass = NULL;
    int32_t flags = RG_BACKWARD_HAND_OUT | (create ? RG_BACKWARD_CREATE : 0);
    rg_tensor *dz = vector(1, N);

    must(rg_mul_scalar(w, 1, 0, &dx)); /* of a parameter: it is tracked */
    must(rg_backward_begin(g.z, dz, flags, &pass));
    is_status(rg_backward_go(pass), RG_ENEEDLUA, "a pass that asks");
    is_status(rg_backward_give(pass, &dx, 1), RG_OK, "and is given what came from a parameter");
    is_status(rg_backward_go(pass), RG_OK, "goes on");
    must(rg_backward_take(pass, g.x, &taken));
    ok(value_of(taken) == 26, "to the same sum");
    is_int(rg_requires_grad(taken), create, "which is recorded where it was asked for");
    rg_backward_end(pass);
    rg_tensor_release(taken);
    rg_tensor_release(dx);
    rg_tensor_release(w);
    rg_tensor_release(dz);
    asking_gone(&g);
    is_held(before, 0, "nothing is left");
  }
}

/* A pass that is ended while it asks, and one that was not begun to the end. */
static void test_ended(void)
{
  held before = held_now();
  asking g = asking_of(0);
  rg_tensor *dz = vector(1, N);
  rg_backward_pass *pass = NULL;
  rg_backward_pass *inner = NULL;

  must(rg_backward_begin(g.z, dz, RG_BACKWARD_HAND_OUT | RG_BACKWARD_RETAIN, &pass));
  rg_backward_end(pass);
  must(rg_backward_begin(g.z, dz, RG_BACKWARD_HAND_OUT | RG_BACKWARD_RETAIN, &pass));
  is_status(rg_backward_go(pass), RG_ENEEDLUA, "a pass that hands out asks");
  is_status(rg_backward_begin(g.z, dz, 0, &inner), RG_ENOSUP, "no other may add meanwhile");
  rg_backward_set_aside(pass, 1);
  rg_backward_set_aside(pass, 1);
  is_status(rg_backward_begin(g.z, dz, RG_BACKWARD_RETAIN, &inner), RG_OK,
            "but where it is set aside");
  rg_backward_end(inner);
  rg_backward_set_aside(pass, 0);
  is_status(rg_backward_begin(g.z, dz, 0, &inner), RG_ENOSUP, "until it goes on");
  rg_backward_end(pass);
  is_status(rg_backward(g.z, dz, 1), RG_ENEEDLUA, "a pass that cannot ask says so");
  is_status(rg_backward_begin(g.z, dz, RG_BACKWARD_RETAIN, &pass), RG_OK,
            "and all may begin again");
  rg_backward_end(pass);
  rg_backward_end(NULL);
  rg_tensor_release(dz);
  asking_gone(&g);
  is_held(before, 0, "nothing is left");
}

/* -- Leaves ----------------------------------------------------------------------------------- */

static void test_added(void)
{
  held before = held_now();
  rg_tensor *x = leaf(3);
  rg_tensor *dy = vector(1, N);
  rg_tensor *y = NULL;

  is_status(rg_backward(x, dy, 0), RG_OK, "from a leaf itself");
  ok(grad_of(x) == 1, "comes what was given");
  must(rg_fill_(dy, 7));
  ok(grad_of(x) == 1, "in memory of its own");
  must(rg_square(x, &y));
  must(rg_fill_(dy, 2));
  is_status(rg_backward(y, dy, 1), RG_OK, "a pass that keeps what it reads");
  ok(grad_of(x) == 13, "adds to what there was");
  is_status(rg_backward(y, dy, 0), RG_OK, "runs again");
  ok(grad_of(x) == 25, "and adds again");
  is_int(rg_grad_saved_bytes(), before.saved, "the second kept nothing");
  is_status(rg_backward(y, dy, 0), RG_EARG, "a third has nothing to read");
  ok(grad_of(x) == 25, "and adds nothing");
  rg_tensor_release(y);
  rg_tensor_release(dy);
  rg_tensor_release(x);
  is_held(before, 0, "nothing is left");
}

/* Two leaves of one sum get the same gradient, each its own. */
static void test_alone(void)
{
  held before = held_now();
  rg_tensor *x[2] = { leaf(1), leaf(2) };
  rg_tensor *dy = vector(4, N);
  rg_tensor *y = NULL;
  rg_tensor *grad = NULL;

  must(rg_add(x[0], x[1], &y));
  is_status(rg_backward(y, dy, 0), RG_OK, "a sum of two leaves");
  must(rg_grad_of(x[0], &grad));
  must(rg_fill_(grad, 9));
  rg_tensor_release(grad);
  ok(grad_of(x[1]) == 4 && value_of(dy) == 4, "what is written to one's gradient is no one else's");
  rg_tensor_release(y);
  rg_tensor_release(dy);
  rg_tensor_release(x[0]);
  rg_tensor_release(x[1]);
  is_held(before, 0, "nothing is left");
}

/* -- More inputs than lists on the stack have room for -------------------------------------- */

static void test_many(int32_t flags, int32_t n)
{
  held before = held_now();
  rg_tensor *x[20] = { NULL };
  rg_tensor *y = NULL;
  rg_tensor *dy = vector(1, N * n);
  rg_backward_pass *pass = NULL;

  for (int32_t i = 0; i < n; i++) {
    x[i] = i % 3 == 1 ? vector(i, N) : leaf(i);
  }
  must(rg_concat((const rg_tensor *const *)x, n, 0, &y));
  for (int32_t i = 0; i < n; i++) {
    rg_tensor *part = NULL;

    must(rg_narrow(dy, 0, (int64_t)i * N, N, 1, &part));
    must(rg_fill_(part, i + 1));
    rg_tensor_release(part);
  }
  must(rg_backward_begin(y, dy, flags, &pass));
  is_status(rg_backward_go(pass), RG_OK, "several joined");
  for (int32_t i = 0; i < n; i++) {
    rg_tensor *taken = NULL;

    must(rg_backward_take(pass, x[i], &taken));
    ok(i % 3 == 1 ? taken == NULL : value_of(taken) == i + 1, "each gets its part");
    rg_tensor_release(taken);
  }
  rg_backward_end(pass);
  rg_tensor_release(y);
  rg_tensor_release(dy);
  for (int32_t i = 0; i < n; i++) {
    rg_tensor_release(x[i]);
  }
  is_held(before, 0, "nothing is left");
}

/* -- Memory ----------------------------------------------------------------------------------- */

/* Whatever cannot be had, a pass that fails leaves nothing, and one that does not is right. */
static void test_no_memory(int32_t flags)
{
  bool failed = true;
  int32_t n_failed = 0;

  for (int64_t at = 1; failed && at < 400; at++) {
    held before = held_now();
    rg_tensor *x = leaf(2);
    rg_tensor *w = leaf(3);
    rg_tensor *dy = vector(1, N);
    rg_tensor *p = NULL;
    rg_tensor *y = NULL;
    rg_tensor *dx = NULL;
    rg_backward_pass *pass = NULL;
    rg_status status;

    must(rg_mul(x, w, &p));
    must(rg_add(p, x, &y));
    rg_alloc_fail_at(at);
    status = rg_backward_begin(y, dy, flags, &pass);
    if (status == RG_OK) {
      status = rg_backward_go(pass);
      if (status == RG_OK) {
        status = rg_backward_take(pass, x, &dx);
      }
      rg_backward_end(pass);
    }
    rg_alloc_fail_at(0);
    failed = status != RG_OK;
    n_failed += failed;
    if (failed && status != RG_ENOMEM) {
      is_status(status, RG_ENOMEM, "memory is what is missing");
    }
    if (!failed && (flags & RG_BACKWARD_HAND_OUT) != 0) {
      ok(value_of(dx) == 4 && !has_grad(x), "in the end all goes well");
    } else if (!failed) {
      ok(grad_of(x) == 4 && grad_of(w) == 2, "in the end all goes well");
    }
    rg_tensor_release(dx);
    rg_tensor_release(y);
    rg_tensor_release(p);
    rg_tensor_release(dy);
    rg_tensor_release(x);
    rg_tensor_release(w);
    held now = held_now();
    if (now.tensors != before.tensors || now.blocks != before.blocks || now.calls != before.calls) {
      is_held(before, 0, "nothing is left of a pass that failed");
    }
  }
  ok(n_failed >= 4, "memory was refused several times");
}

/* -- What is refused ----------------------------------------------------------------------- */

static void test_refused(void)
{
  held before = held_now();
  rg_tensor *plain = vector(1, N);
  rg_tensor *x = leaf(1);
  rg_tensor *y = NULL;
  rg_tensor *few = vector(1, 3);
  rg_backward_pass *pass = NULL;

  must(rg_square(x, &y));
  is_status(rg_backward_begin(plain, plain, 0, &pass), RG_EARG, "no gradient flows there");
  is_status(rg_backward_begin(y, NULL, 0, &pass), RG_ESHAPE, "more than one element");
  is_status(rg_backward_begin(y, few, 0, &pass), RG_ESHAPE, "a gradient of another shape");
  is_status(rg_add_(x, plain), RG_EARG, "a leaf is not written to");
  must(rg_grad_mode(0) == 1 ? RG_OK : RG_EBUG);
  must(rg_add_(x, plain));
  (void)rg_grad_mode(1);
  is_status(rg_backward(y, plain, 0), RG_EARG, "what its gradient reads was written to");
  ok(!has_grad(x), "nothing is added");
  rg_tensor_release(y);
  rg_tensor_release(few);
  rg_tensor_release(plain);
  rg_tensor_release(x);
  is_held(before, 0, "nothing is left");
}

int main(void)
{
  if (tap_refusing()) {
    test_added();
    return done();
  }
  test_function(0);
  test_function(RG_BACKWARD_HAND_OUT);
  test_recorded();
  test_ended();
  test_added();
  test_alone();
  for (int32_t n = 2; n <= 20; n += n == 9 ? 11 : 1) {
    test_many(RG_BACKWARD_HAND_OUT, n);
  }
  test_many(RG_BACKWARD_HAND_OUT | RG_BACKWARD_CREATE, 9);
  test_many(RG_BACKWARD_HAND_OUT | RG_BACKWARD_CREATE, 20);
  test_no_memory(0);
  test_no_memory(RG_BACKWARD_HAND_OUT);
  test_no_memory(RG_BACKWARD_HAND_OUT | RG_BACKWARD_CREATE);
  test_many_numbers();
  test_refused();
  return done();
}
