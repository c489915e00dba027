/* SPDX-License-Identifier: MIT */
/*
** Clones of plans: threads that run them side by side, what is shared and what is not, refusals.
*/
#include <pthread.h>

#include "graph/record.h"

#include "ridge/graph.h"
#include "ridge/ir.h"
#include "tap.h"

enum { ROWS = 5, SIZE = 48, ROUNDS = 60, THREADS = 2 };

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

static void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

static rg_tensor *drawn(int64_t rows, int64_t cols, uint64_t seed)
{
  rg_generator *generator;
  rg_tensor *x;

  must(rg_generator_new(seed, &generator));
  must(rg_empty(RG_F32, RG_CPU, SHAPE(rows, cols), 2, &x));
  must(rg_uniform_(x, -1, 1, generator));
  rg_generator_release(generator);
  return x;
}

static rg_tensor *parameter(uint64_t seed)
{
  rg_tensor *w = drawn(SIZE, SIZE, seed);

  w->_flags |= RG_TENSOR_PARAM;
  return w;
}

/* Two layers, of which `second` is NULL where there is one. */
static rg_tensor *forward(const rg_tensor *x, const rg_tensor *w, const rg_tensor *second)
{
  rg_tensor *y;
  rg_tensor *z;

  must(rg_linear(x, w, NULL, RG_ACT_NONE, &y));
  must(rg_gelu(y, &z));
  rg_tensor_release(y);
  if (second == NULL) {
    return z;
  }
  must(rg_linear(z, second, NULL, RG_ACT_TANH, &y));
  rg_tensor_release(z);
  return y;
}

static rg_plan *plan_of(rg_graph *g)
{
  rg_tensor *outputs[4] = { NULL };
  rg_plan *plan;

  must(rg_graph_plan(g, outputs, &plan));
  for (int i = 0; i < 4; i++) {
    rg_tensor_release(outputs[i]);
  }
  rg_graph_release(g);
  return plan;
}

static rg_plan *recorded(const rg_tensor *x, const rg_tensor *w, const rg_tensor *second)
{
  rg_graph *g;

  must(rg_capture_begin());
  must(rg_record_begin(0));
  must(rg_record_input(x, "x"));
  rg_tensor *y = forward(x, w, second);

  must(rg_record_output(y, RG_OUTPUT_RETURNED, "y"));
  must(rg_record_end(&g));
  rg_capture_cancel();
  rg_tensor_release(y);
  return plan_of(g);
}

/* -- Threads --------------------------------------------------------------------------------- */

typedef struct worker {
  rg_plan *plan;
  pthread_barrier_t *begin;
  const rg_tensor *in[ROUNDS];
  const rg_tensor *want[ROUNDS];
  int32_t n_wrong;
} worker;

static void *work(void *data)
{
  worker *w = data;
  rg_tensor *y = rg_plan_output(w->plan, 0);

  pthread_barrier_wait(w->begin);
  for (int32_t i = 0; i < ROUNDS; i++) {
    bool right = rg_copy_(rg_plan_input(w->plan, 0), w->in[i]) == RG_OK &&
                 rg_plan_replay(w->plan, 1) == RG_OK &&
                 memcmp(y->_data, w->want[i]->_data, ROWS * SIZE * sizeof(float)) == 0;

    w->n_wrong += right ? 0 : 1;
  }
  return NULL;
}

static void test_threads(void)
{
  rg_tensor *x = drawn(ROWS, SIZE, 1);
  rg_tensor *w[2] = { parameter(2), parameter(3) };
  rg_plan *plan = recorded(x, w[0], w[1]);
  pthread_barrier_t begin;
  pthread_t thread[THREADS];
  worker workers[THREADS] = { { .plan = plan }, { .plan = NULL } };

  is_status(rg_plan_clone(plan, &workers[1].plan), RG_OK, "a plan of a graph has a clone");
  ok(rg_plan_input(workers[1].plan, 0) != x && rg_plan_input(plan, 0) == x,
     "with an input of its own");
  ok(rg_plan_input(plan, 1) == NULL && rg_plan_output(plan, 1) == NULL, "there is one of each");
  ok(memcmp(rg_plan_input(workers[1].plan, 0)->_data, x->_data, ROWS * SIZE * sizeof(float)) == 0,
     "that holds what the other one does");
  pthread_barrier_init(&begin, NULL, THREADS);
  for (int32_t t = 0; t < THREADS; t++) {
    workers[t].begin = &begin;
    for (int32_t i = 0; i < ROUNDS; i++) {
      rg_tensor *in = drawn(ROWS, SIZE, (uint64_t)(100 * t + i + 10));

      workers[t].in[i] = in;
      workers[t].want[i] = forward(in, w[0], w[1]);
    }
  }
  for (int32_t t = 0; t < THREADS; t++) {
    must(pthread_create(&thread[t], NULL, work, &workers[t]) == 0 ? RG_OK : RG_EBUG);
  }
  for (int32_t t = 0; t < THREADS; t++) {
    pthread_join(thread[t], NULL);
    is_int(workers[t].n_wrong, 0, "each thread has the bits of its inputs");
  }
  pthread_barrier_destroy(&begin);
  for (int32_t t = 0; t < THREADS; t++) {
    for (int32_t i = 0; i < ROUNDS; i++) {
      rg_tensor_release((rg_tensor *)(uintptr_t)workers[t].in[i]);
      rg_tensor_release((rg_tensor *)(uintptr_t)workers[t].want[i]);
    }
    rg_plan_release(workers[t].plan);
  }
  rg_tensor_release(x);
  rg_tensor_release(w[0]);
  rg_tensor_release(w[1]);
}

/* -- One plan, two threads --------------------------------------------------------------------- */

typedef struct long_run {
  rg_plan *plan;
  rg_status status;
  _Atomic bool over;
} long_run;

static void *run_long(void *data)
{
  long_run *r = data;

  r->status = rg_plan_replay(r->plan, 20000);
  r->over = true;
  return NULL;
}

static void test_one_plan(void)
{
  rg_tensor *x = drawn(ROWS, SIZE, 1);
  rg_tensor *w = parameter(2);
  long_run r = { .plan = recorded(x, w, NULL) };
  rg_status status = RG_OK;
  rg_plan *clone;
  pthread_t thread;

  must(pthread_create(&thread, NULL, run_long, &r) == 0 ? RG_OK : RG_EBUG);
  while (!r.over && status == RG_OK) {
    status = rg_plan_replay(r.plan, 1);
  }
  if (!r.over) {
    is_status(rg_plan_clone(r.plan, &clone), RG_OK, "a plan that runs has clones");
    is_status(rg_plan_replay(clone, 1), RG_OK, "which run beside it");
    rg_plan_release(clone);
  }
  pthread_join(thread, NULL);
  ok(status == RG_EARG || r.status == RG_EARG, "two threads do not run one plan at the same time");
  ok(status == RG_OK || r.status == RG_OK, "the first of them does");
  is_status(rg_plan_replay(r.plan, 1), RG_OK, "and then the other one may");
  rg_tensor *want = forward(x, w, NULL);

  ok(memcmp(rg_plan_output(r.plan, 0)->_data, want->_data, ROWS * SIZE * sizeof(float)) == 0,
     "with the right bits");
  rg_tensor_release(want);
  rg_plan_release(r.plan);
  rg_tensor_release(x);
  rg_tensor_release(w);
}

/* A run that failed is over, and what it left half made is made again. */
static void test_failed_run(void)
{
  rg_tensor *x = drawn(ROWS, SIZE, 1);
  rg_tensor *w[2] = { parameter(2), parameter(3) };
  rg_plan *plan = recorded(x, w[0], w[1]);
  rg_tensor *want = forward(x, w[0], w[1]);
  rg_status status = RG_ENOMEM;
  int64_t n = 0;

  while (status == RG_ENOMEM) {
    rg_plan *clone;

    must(rg_fill_(rg_plan_output(plan, 0), 0));
    must(rg_plan_clone(plan, &clone));
    rg_alloc_fail_at(++n);
    status = rg_plan_replay(clone, 1);
    rg_alloc_fail_at(0);
    must(rg_plan_replay(clone, 1));
    ok(memcmp(rg_plan_output(clone, 0)->_data, want->_data, ROWS * SIZE * sizeof(float)) == 0,
       "what had no memory runs when there is some");
    rg_plan_release(clone);
  }
  is_status(status, RG_OK, "and nothing else went wrong");
  ok(n > 2, "it failed at several places");
  rg_plan_release(plan);
  rg_tensor_release(want);
  rg_tensor_release(x);
  rg_tensor_release(w[0]);
  rg_tensor_release(w[1]);
}

/* -- Clones made side by side ------------------------------------------------------------------ */

enum { CLONES = 20 };

typedef struct maker {
  rg_plan *plan;
  pthread_barrier_t *begin;
  const rg_tensor *want;
  int32_t n_wrong;
} maker;

static void *make_clones(void *data)
{
  maker *m = data;

  pthread_barrier_wait(m->begin);
  for (int32_t i = 0; i < CLONES; i++) {
    rg_plan *clone;

    if (rg_plan_clone(m->plan, &clone) != RG_OK) {
      m->n_wrong++;
      continue;
    }
    bool right =
        rg_plan_replay(clone, 1) == RG_OK &&
        memcmp(rg_plan_output(clone, 0)->_data, m->want->_data, ROWS * SIZE * sizeof(float)) == 0;

    m->n_wrong += right ? 0 : 1;
    rg_plan_release(clone);
  }
  return NULL;
}

/* Of one plan on two threads: what each takes from the plan is counted while others count. */
static void test_made_side_by_side(void)
{
  rg_tensor *x = drawn(ROWS, SIZE, 1);
  rg_tensor *w[2] = { parameter(2), parameter(3) };
  rg_plan *plan = recorded(x, w[0], w[1]);
  rg_tensor *want = forward(x, w[0], w[1]);
  pthread_barrier_t begin;
  pthread_t thread[THREADS];
  maker makers[THREADS];

  pthread_barrier_init(&begin, NULL, THREADS);
  for (int32_t t = 0; t < THREADS; t++) {
    makers[t] = (maker){ plan, &begin, want, 0 };
    must(pthread_create(&thread[t], NULL, make_clones, &makers[t]) == 0 ? RG_OK : RG_EBUG);
  }
  for (int32_t t = 0; t < THREADS; t++) {
    pthread_join(thread[t], NULL);
    is_int(makers[t].n_wrong, 0, "each thread makes clones that are right");
  }
  pthread_barrier_destroy(&begin);
  rg_plan_release(plan);
  rg_tensor_release(want);
  rg_tensor_release(x);
  rg_tensor_release(w[0]);
  rg_tensor_release(w[1]);
}

/* -- What is shared ---------------------------------------------------------------------------- */

static void test_shared(void)
{
  rg_tensor *x = drawn(ROWS, SIZE, 1);
  rg_tensor *w = parameter(2);
  rg_plan *plan = recorded(x, w, NULL);
  rg_plan *clone;
  rg_plan *again;

  must(rg_plan_clone(plan, &clone));
  rg_plan_release(plan);
  is_status(rg_plan_clone(clone, &again), RG_OK, "a clone has clones, when its plan is gone");
  must(rg_fill_(w, 0.5));
  must(rg_fill_(rg_plan_input(again, 0), 1));
  must(rg_plan_replay(again, 1));
  rg_tensor *ones;

  must(rg_empty(RG_F32, RG_CPU, SHAPE(ROWS, SIZE), 2, &ones));
  must(rg_fill_(ones, 1));
  rg_tensor *want = forward(ones, w, NULL);

  ok(memcmp(rg_plan_output(again, 0)->_data, want->_data, ROWS * SIZE * sizeof(float)) == 0,
     "it reads the parameter as it is");
  rg_tensor_release(want);
  rg_tensor_release(ones);
  rg_plan_release(clone);
  rg_plan_release(again);
  rg_tensor_release(x);
  rg_tensor_release(w);
}

/* Two inputs that are windows of one storage are so in the clone. */
static void test_windows(bool later_first)
{
  rg_tensor *all = drawn(3 * ROWS, SIZE, 1);
  rg_tensor *a;
  rg_tensor *b;
  rg_tensor *y;
  rg_graph *g;
  rg_plan *clone;

  must(rg_narrow(all, 0, ROWS + (later_first ? 1 : 0), ROWS, 1, &a));
  must(rg_narrow(all, 0, ROWS + (later_first ? 0 : 1), ROWS, 1, &b));
  must(rg_capture_begin());
  must(rg_record_begin(0));
  must(later_first ? rg_sub(b, a, &y) : rg_sub(a, b, &y));
  must(rg_record_output(y, RG_OUTPUT_RETURNED, "y"));
  must(rg_record_end(&g));
  rg_capture_cancel();
  rg_tensor_release(y);
  rg_plan *plan = plan_of(g);

  must(rg_plan_clone(plan, &clone));
  rg_tensor *own[2] = { rg_plan_input(clone, later_first ? 1 : 0),
                        rg_plan_input(clone, later_first ? 0 : 1) };

  ok(own[0]->_storage == own[1]->_storage && own[0]->_storage != all->_storage,
     "inputs of one storage have one");
  is_int((char *)own[1]->_data - (char *)own[0]->_data,
         (later_first ? -1 : 1) * (int64_t)(SIZE * sizeof(float)), "and their places");
  is_int(own[0]->_storage->bytes, (ROWS + 1) * SIZE * (int64_t)sizeof(float),
         "of no more than they show");
  must(rg_plan_replay(plan, 1));
  must(rg_plan_replay(clone, 1));
  ok(memcmp(rg_plan_output(plan, 0)->_data, rg_plan_output(clone, 0)->_data,
            ROWS * SIZE * sizeof(float)) == 0,
     "which hold the same");
  rg_plan_release(plan);
  rg_plan_release(clone);
  rg_tensor_release(a);
  rg_tensor_release(b);
  rg_tensor_release(all);
}

/* -- Random numbers ---------------------------------------------------------------------------- */

/* The finalizer of SplitMix64, as Steele, Lea and Flood give it. */
static uint64_t finalized(uint64_t z)
{
  z ^= z >> 30;
  z *= 0xbf58476d1ce4e5b9u;
  z ^= z >> 27;
  z *= 0x94d049bb133111ebu;
  z ^= z >> 31;
  return z;
}

/* The stream that a clone has in the place of one. */
static rg_generator *stream_of(const rg_generator *g)
{
  rg_generator *stream;

  must(rg_generator_new(
      finalized(rg_generator_seed(g) + finalized(rg_generator_offset(g) + 1)) >> 11, &stream));
  return stream;
}

/* A clone draws from streams of its own, one for each that its plan has: their seeds are what the
** plan's streams would have drawn next, and so are the same wherever the program runs again. */
static void test_streams(void)
{
  enum { DRAWS = 4, STREAMS = 2 };
  static const int32_t from[DRAWS] = { 0, 1, 0, 1 };
  rg_generator *stream[STREAMS];
  rg_generator *own[STREAMS];
  rg_tensor *y[DRAWS];
  rg_tensor *want;
  rg_graph *g;
  rg_plan *clone;

  for (int32_t i = 0; i < STREAMS; i++) {
    must(rg_generator_new(41 + (uint64_t)i, &stream[i]));
  }
  must(rg_capture_begin());
  must(rg_record_begin(0));
  for (int32_t i = 0; i < DRAWS; i++) {
    must(rg_empty(RG_F32, RG_CPU, SHAPE(ROWS, SIZE), 2, &y[i]));
    must(rg_uniform_(y[i], 0, 1, stream[from[i]]));
    must(rg_record_output(y[i], RG_OUTPUT_RETURNED, "y"));
  }
  must(rg_record_end(&g));
  rg_capture_cancel();
  for (int32_t i = 0; i < DRAWS; i++) {
    rg_tensor_release(y[i]);
  }
  rg_plan *plan = plan_of(g);

  for (int32_t i = 0; i < STREAMS; i++) {
    own[i] = stream_of(stream[i]);
  }
  must(rg_plan_clone(plan, &clone));
  must(rg_plan_replay(clone, 1));
  must(rg_empty(RG_F32, RG_CPU, SHAPE(ROWS, SIZE), 2, &want));
  for (int32_t i = 0; i < DRAWS; i++) {
    must(rg_uniform_(want, 0, 1, own[from[i]]));
    ok(memcmp(want->_data, rg_plan_output(clone, i)->_data, ROWS * SIZE * sizeof(float)) == 0,
       "a clone draws what its own stream gives");
  }
  rg_tensor_release(want);
  rg_plan_release(plan);
  rg_plan_release(clone);
  for (int32_t i = 0; i < STREAMS; i++) {
    rg_generator_release(own[i]);
    rg_generator_release(stream[i]);
  }
}

/* An input in the memory of a parameter is that memory, in the clone too. */
static void test_beside_parameter(void)
{
  rg_tensor *all = drawn(SIZE + ROWS, SIZE, 1);
  rg_tensor *w;
  rg_tensor *x;
  rg_tensor *y;
  rg_graph *g;
  rg_plan *clone;

  must(rg_narrow(all, 0, 0, SIZE, 1, &w));
  w->_flags |= RG_TENSOR_PARAM;
  must(rg_narrow(all, 0, SIZE, ROWS, 1, &x));
  must(rg_capture_begin());
  must(rg_record_begin(0));
  must(rg_record_input(x, "x"));
  must(rg_linear(x, w, NULL, RG_ACT_NONE, &y));
  must(rg_record_output(y, RG_OUTPUT_RETURNED, "y"));
  must(rg_record_end(&g));
  rg_capture_cancel();
  rg_plan *plan = plan_of(g);

  must(rg_plan_clone(plan, &clone));
  ok(rg_plan_input(clone, 0)->_storage == all->_storage,
     "what lies in the memory of a parameter is shared");
  must(rg_fill_(all, 0.25));
  must(rg_plan_replay(clone, 1));
  ok(((float *)rg_plan_output(clone, 0)->_data)[0] == SIZE * 0.0625f, "and read anew");
  rg_plan_release(plan);
  rg_plan_release(clone);
  rg_tensor_release(y);
  rg_tensor_release(x);
  rg_tensor_release(w);
  rg_tensor_release(all);
}

static void test_refusals(void)
{
  rg_tensor *x = drawn(ROWS, SIZE, 1);
  rg_tensor *y;
  rg_plan *plan;
  rg_plan *clone = NULL;
  rg_graph *g;

  must(rg_capture_begin());
  must(rg_gelu(x, &y));
  must(rg_capture_end(&plan));
  is_status(rg_plan_clone(plan, &clone), RG_ENOSUP, "a captured plan has no clone");
  is_status(rg_plan_clone(NULL, &clone), RG_EARG, "nor has none");
  ok(rg_plan_input(plan, 0) == NULL && rg_plan_output(plan, 0) == NULL, "nor inputs of its own");
  rg_plan_release(plan);
  must(rg_capture_begin());
  must(rg_record_begin(0));
  must(rg_relu_(x));
  must(rg_record_name(x, "average"));
  must(rg_record_end(&g));
  rg_capture_cancel();
  plan = plan_of(g);
  is_status(rg_plan_clone(plan, &clone), RG_ENOSUP, "nor has one that writes to what is outside");
  ok(strstr(rg_error_message(), "average") != NULL, "which is named");
  rg_plan_release(plan);
  rg_tensor_release(y);
  rg_tensor_release(x);
}

/* Of a plan whose input was released. */
static void test_released(void)
{
  rg_tensor *x = drawn(ROWS, SIZE, 1);
  rg_tensor *w = parameter(2);
  rg_plan *plan = recorded(x, w, NULL);
  rg_plan *clone = NULL;

  rg_tensor_drop(x);
  is_status(rg_plan_clone(plan, &clone), RG_ERELEASED, "there is no input to begin with");
  ok(strstr(rg_error_message(), "x") != NULL, "it says which");
  rg_plan_release(plan);
  rg_tensor_release(x);
  rg_tensor_release(w);
}

int main(void)
{
  test_threads();
  test_one_plan();
  test_failed_run();
  test_made_side_by_side();
  test_shared();
  test_windows(false);
  test_windows(true);
  test_streams();
  test_beside_parameter();
  test_refusals();
  test_released();
  return done();
}
