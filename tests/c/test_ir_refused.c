/* SPDX-License-Identifier: MIT */
/*
** Graphs as text and JSON, written and read, copied, and made plans of, where each allocation is
** refused in turn: an error without a graph, that leaves no memory behind.
*/
#include <malloc.h>

#include "base/base.h"
#include "ir.h"
#include "op/dropout.h"
#include "ridge/graph.h"

/* Something to do with a graph; undo: give back what came of it. */
typedef struct work {
  const char *name;
  rg_status (*run)(rg_graph *g, const char *text, void **out);
  void (*undo)(void *out);
  int64_t least; /* allocations */
} work;

static rg_status parse(rg_graph *g, const char *text, void **out)
{
  (void)g;
  return rg_graph_parse(text, (int64_t)strlen(text), (rg_graph **)out);
}

static rg_status copy(rg_graph *g, const char *text, void **out)
{
  (void)text;
  return rg_graph_copy(g, (rg_graph **)out);
}

static void release(void *out)
{
  rg_graph_release(out);
}

static rg_status plan(rg_graph *g, const char *text, void **out)
{
  rg_tensor *y[2] = { NULL };
  rg_status status = rg_graph_plan(g, y, (rg_plan **)out);

  (void)text;
  if (status != RG_OK && y[0] != NULL) {
    tap_bail("an output without a plan");
  }
  rg_tensor_release(y[0]);
  rg_tensor_release(y[1]);
  return status;
}

static void release_plan(void *out)
{
  rg_plan_release(out);
}

static int64_t in_use(void)
{
  const struct mallinfo2 m = mallinfo2();

  return (int64_t)(m.uordblks + m.hblkhd);
}

/* The n-th allocation is refused.  Returns whether all is as it was then. */
static bool refuse(const work *w, rg_graph *g, const char *text, int64_t n, rg_status *status,
                   void **out)
{
  const int64_t tensors = rg_live_tensors();
  const int64_t live = rg_memory_of(RG_CPU)->live_bytes;
  bool clean;

  *out = NULL;
  rg_alloc_fail_at(n);
  *status = w->run(g, text, out);
  clean = *status == RG_OK ? rg_alloc_injected() : *status == RG_ENOMEM && *out == NULL;
  rg_alloc_fail_at(0);
  return clean && !rg_capturing() &&
         (*status == RG_OK ||
          (rg_live_tensors() == tensors && rg_memory_of(RG_CPU)->live_bytes == live));
}

/* Each allocation is refused in turn until none is.  glibc keeps up to seven freed blocks of a size
** as if they were in use, so that the first runs may keep some. */
static void refuse_each(const work *w, const char *kind, rg_graph *g, const char *text)
{
  enum { FIRST = 8, MORE = 2 };
  const int64_t tensors = rg_live_tensors();
  rg_status status = RG_ENOMEM;
  bool clean = true;
  int64_t leaked = 0;
  int64_t n = 0;
  void *out = NULL;

  must(w->run(g, text, &out)); /* what is kept for good is there */
  w->undo(out);
  while (status != RG_OK && n < 10000) {
    int64_t before = 0;

    n++;
    for (int32_t i = 0; i < FIRST + MORE && (i == 0 || status != RG_OK); i++) {
      before = i == FIRST ? in_use() : before;
      clean = refuse(w, g, text, n, &status, &out) && clean;
    }
    leaked = status == RG_OK ? leaked : rg_max_i64(leaked, in_use() - before);
  }
  tap_int(status, RG_OK, w->name, __FILE__, __LINE__);
  printf("# %s of %s: %lld allocations\n", w->name, kind, (long long)n - 1);
  ok(n > w->least, "many were refused");
  ok(clean, "each is an error that leaves nothing");
  is_int(leaked, 0, "and keeps no memory");
  w->undo(out);
  is_int(rg_live_tensors(), tensors, "nor does what came of it");
}

/* A graph with a name in each place that a text has: of what the writers make. */
static void test_texts(void)
{
  static const work reads = { "read", parse, release, 30 };
  static const work copies = { "copied", copy, release, 10 };
  sample s = sample_graph();
  const char *text;

  must(rg_graph_print(s.g, &text));
  char *printed = strdup(text);
  must(rg_graph_json(s.g, &text));
  char *json = strdup(text);

  refuse_each(&reads, "print", NULL, printed);
  refuse_each(&reads, "JSON", NULL, json);
  refuse_each(&copies, "a sample", s.g, NULL);
  free(printed);
  free(json);
  rg_graph_release(s.g);
}

/* Is each refused text NULL, and the whole one at last what it was? */
static void test_written(void)
{
  sample s = sample_graph();
  rg_status (*const write[2])(rg_graph * g, const char **out) = { rg_graph_print, rg_graph_json };

  for (int32_t i = 0; i < 2; i++) {
    const char *text;
    rg_status status = RG_ENOMEM;
    int64_t n = 0;
    bool clean = true;

    must(write[i](s.g, &text));
    char *want = strdup(text);
    while (status != RG_OK && n < 10000) {
      text = NULL;
      rg_alloc_fail_at(++n);
      status = write[i](s.g, &text);
      rg_alloc_fail_at(0);
      clean = clean && (status == RG_OK || (status == RG_ENOMEM && text == NULL));
    }
    ok(clean && status == RG_OK && text != NULL && strcmp(text, want) == 0,
       "a text is whole or refused");
    free(want);
  }
  rg_graph_release(s.g);
}

/* What a plan has besides calls: a draw, scratch, an activation in place, memory that is laid out,
** a result that is there already and one that is copied. */
static void test_plans(void)
{
  static const work plans = { "made a plan", plan, release_plan, 40 };
  sample s = sample_graph();
  rg_tensor *x, *w, *state;

  must(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 2, 3 }, 2, &x));
  must(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 3, 3 }, 2, &w));
  must(rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 2, 3 }, 2, &state));
  must(rg_ir_bind(s.g, s.x, x));
  must(rg_ir_bind(s.g, s.w, w));
  must(rg_ir_bind(s.g, s.state, state));
  returned(s.g, s.x, "as it came");
  refuse_each(&plans, "a sample", s.g, NULL);
  rg_graph_release(s.g);
  rg_tensor_release(x);
  rg_tensor_release(w);
  rg_tensor_release(state);
}

int main(void)
{
  test_texts();
  test_written();
  test_plans();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
