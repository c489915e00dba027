/* SPDX-License-Identifier: MIT */
/*
** Scopes: what ends with them, what outlives them, what is let go before.
*/
#include <pthread.h>

#include "base/base.h"
#include "tap.h"
#include "tensor/tensor.h"

/* A tensor of n bytes as Lua gets it: one reference, held by a handle. */
static rg_ref handle(int64_t n)
{
  rg_ref ref = { NULL, 0 };

  if (rg_empty(RG_U8, RG_CPU, &n, 1, &ref._t) != RG_OK) {
    tap_bail(rg_error_message());
  }
  ref._t->_handles = 1;
  return ref;
}

/* What Lua does when a handle dies. */
static void drop(rg_ref *ref)
{
  rg_handles handles = { ._tensors = (rg_tensor *[1]){ NULL } };

  rg_handles_drop(&handles, ref);
}

static int64_t live(void)
{
  return rg_memory_of(RG_CPU)->live_bytes;
}

static bool released(rg_ref ref)
{
  return (ref._t->_flags & RG_TENSOR_RELEASED) != 0;
}

/* -- What ends ------------------------------------------------------------------- */

static void test_leave(void)
{
  rg_ref outside = handle(100);
  rg_ref inside;
  rg_tensor *view = NULL;
  rg_tensor *held = NULL;
  double value;
  int32_t depth;

  is_int(rg_scope_depth(), 0, "outside every scope");
  depth = rg_scope_enter();
  is_int(depth, 1, "the first scope");
  is_int(rg_scope_depth(), 1, "is the current one");
  inside = handle(200);
  is_status(rg_narrow(inside._t, 0, 0, 10, 1, &view), RG_OK, "a view of what is made inside");
  held = rg_tensor_retain(handle(300)._t);
  held->_handles = 0;
  held->_refs--; /* the handle's */
  rg_scope_leave(depth);
  is_int(rg_scope_depth(), 0, "left");
  ok(released(inside), "what only a handle knows is released");
  is_status(rg_tensor_get(inside._t, (int64_t[]){ 0 }, 1, &value), RG_ERELEASED, "and says so");
  ok(strstr(rg_error_message(), "u8[200]") != NULL, "with its type and shape");
  ok(!released(outside), "what was made outside is not");
  ok(held->_data != NULL && view->_data != NULL, "nor what somebody in C holds");
  is_int(live(), 100 + 200 + 300, "a view keeps the storage");
  rg_tensor_release(view);
  is_int(live(), 100 + 300, "as long as it is there");
  rg_tensor_release(held);
  drop(&inside);
  drop(&inside);
  ok(inside._t == NULL, "a handle is dropped once");
  drop(&outside);
  drop(NULL);
  is_int(live(), 0, "all is free");
}

static void test_depths(void)
{
  rg_ref a;
  rg_ref b;
  rg_ref c;
  int32_t one = rg_scope_enter();
  int32_t two;

  a = handle(10);
  two = rg_scope_enter();
  b = handle(20);
  rg_scope_leave(7);
  rg_scope_leave(0);
  rg_scope_leave(-1);
  is_int(rg_scope_depth(), 2, "a depth that is none ends nothing");
  rg_scope_leave(two);
  ok(!released(a) && released(b), "the inner scope ends alone");
  two = rg_scope_enter();
  c = handle(30);
  rg_scope_leave(one);
  ok(released(a) && released(c), "the outer one with all inside");
  is_int(rg_scope_depth(), 0, "that is abandoned");
  drop(&a);
  drop(&b);
  drop(&c);
}

/* -- What is let go before ------------------------------------------------------- */

static void test_let_go(void)
{
  rg_ref kept[100];
  rg_ref again;
  int32_t depth = rg_scope_enter();
  int64_t tensors = rg_live_tensors();

  for (int i = 0; i < (tap_refusing() ? 10 : 100000); i++) {
    rg_ref ref = handle(1000);

    drop(&ref);
  }
  is_int(live(), 0, "a tensor that nobody knows any more is free before its scope ends");
  is_int(rg_live_tensors(), tensors, "its header too");
  for (int i = 0; i < 100; i++) {
    kept[i] = handle(1);
  }
  for (int i = 0; i < 100; i += 2) { /* gaps in the list */
    drop(&kept[i]);
  }
  for (int i = 0; i < (tap_refusing() ? 80 : 1000); i++) { /* which are closed when it is full */
    rg_ref ref = handle(1);

    again = handle(1);
    drop(&ref);
    drop(&again);
  }
  is_int(live(), 50, "every second is there");
  rg_scope_leave(depth);
  is_int(live(), 0, "and ends with the scope");
  for (int i = 1; i < 100; i += 2) {
    drop(&kept[i]);
  }
  is_int(rg_live_tensors(), tensors, "no header is left");
}

/* -- What outlives --------------------------------------------------------------- */

static void test_keep(void)
{
  rg_ref first;
  rg_ref kept;
  rg_ref last;
  int32_t one = rg_scope_enter();
  int32_t two = rg_scope_enter();

  first = handle(1);
  kept = handle(2);
  last = handle(4);
  rg_scope_keep(kept._t);
  rg_scope_leave(two);
  ok(released(first) && released(last), "what stands before and behind it ends");
  ok(!released(kept), "what is kept does not");
  is_int(live(), 2, "and nothing else");
  rg_scope_leave(one);
  ok(released(kept), "it belonged to the scope around");
  drop(&first);
  drop(&kept);
  drop(&last);
}

static void test_keep_outward(void)
{
  rg_ref kept;
  rg_ref twice;
  rg_ref outer;
  int32_t one = rg_scope_enter();

  outer = handle(1);
  kept = handle(2);
  rg_scope_enter();
  twice = handle(4);
  rg_scope_keep(twice._t);
  rg_scope_keep(twice._t);
  rg_scope_keep(kept._t); /* of the outer scope, from inside the inner one */
  rg_scope_keep(NULL);
  rg_scope_leave(one);
  ok(released(outer), "the outer scope ended");
  ok(!released(kept), "what was made in it and kept outlives it");
  ok(!released(twice), "so does what was kept twice");
  rg_scope_keep(kept._t);
  drop(&outer);
  drop(&kept);
  drop(&twice);
  is_int(live(), 0, "outside every scope handles alone decide");
}

/* Many, in every order of keeping and dropping. */
static void test_many(void)
{
  static rg_ref refs[500];
  const int n = tap_refusing() ? 20 : 500;
  int32_t one = rg_scope_enter();
  int32_t two = rg_scope_enter();
  bool right = true;

  for (int i = 0; i < n; i++) {
    refs[i] = handle(1);
  }
  for (int i = 0; i < n; i++) {
    int j = i * 7 % n;

    if (j % 3 == 0) {
      rg_scope_keep(refs[j]._t);
    } else if (j % 3 == 1) {
      drop(&refs[j]);
    }
  }
  rg_scope_leave(two);
  for (int i = 0; i < n; i++) {
    right = right && (i % 3 == 1 ? refs[i]._t == NULL : released(refs[i]) == (i % 3 == 2));
  }
  ok(right, "each of 500 is kept, dropped or ended as it was told");
  rg_scope_leave(one);
  is_int(live(), 0, "and all ends");
  for (int i = 0; i < n; i++) {
    drop(&refs[i]);
  }
}

/* -- Threads --------------------------------------------------------------------- */

static void *release_elsewhere(void *x)
{
  rg_tensor_release(x);
  return NULL;
}

static void *own_scope(void *deepest)
{
  int32_t depth = rg_scope_enter();
  rg_ref ref = handle(1);

  *(int32_t *)deepest = depth;
  rg_scope_leave(depth);
  drop(&ref);
  return NULL;
}

static void test_threads(void)
{
  int32_t depth = rg_scope_enter();
  rg_tensor *x = handle(64)._t;
  pthread_t thread;
  int32_t deepest = 0;

  x->_handles = 0;
  pthread_create(&thread, NULL, release_elsewhere, x);
  pthread_join(thread, NULL);
  is_int(live(), 64, "released by another thread, it waits for its scope");
  rg_scope_leave(depth);
  is_int(live(), 0, "and ends there");
  depth = rg_scope_enter();
  pthread_create(&thread, NULL, own_scope, &deepest);
  pthread_join(thread, NULL);
  is_int(deepest, 1, "each thread has scopes of its own");
  rg_scope_leave(depth);
}

/* What is set aside goes on behind what was made meanwhile. */
static void test_set_aside(void)
{
  enum { ROOM = 64 }; /* tensors that a thread's list has room for at first */
  rg_ref ref[ROOM + 1];
  rg_parked *parked;
  int32_t depth;
  int32_t outer;

  (void)rg_scope_enter();
  for (int i = 0; i < ROOM; i++) {
    ref[i] = handle(1);
  }
  is_status(rg_scope_park(&parked), RG_OK, "a scope is set aside");
  outer = rg_scope_enter();
  is_int(outer, 1, "and is no longer the current one");
  ref[ROOM] = handle(1);
  rg_alloc_fail_at(1);
  is_status(rg_scope_go_on(parked, &depth), RG_ENOMEM, "it goes on in a longer list");
  rg_alloc_fail_at(0);
  is_status(rg_scope_go_on(parked, &depth), RG_OK, "where there is memory for that");
  is_int(depth, 2, "inside of the current one");
  rg_scope_leave(depth);
  ok(released(ref[0]) && released(ref[ROOM - 1]), "and ends with what was made in it");
  ok(!released(ref[ROOM]), "alone");
  rg_scope_leave(outer);
  ok(released(ref[ROOM]), "then the other ends");
  for (int i = 0; i <= ROOM; i++) {
    drop(&ref[i]);
  }
}

int main(void)
{
  int64_t tensors = rg_live_tensors();

  test_leave();
  test_depths();
  test_let_go();
  test_keep();
  test_keep_outward();
  test_many();
  test_threads();
  test_set_aside();
  is_int(rg_live_tensors(), tensors, "no tensor is left");
  is_int(live(), 0, "no memory is left");
  return done();
}
