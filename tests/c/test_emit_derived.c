/* SPDX-License-Identifier: MIT */
/*
** Derived nodes in plans: run again where something wrote to what they read, and only there.
**
** Whether a step ran is seen by memory that changes without a write: a kernel that runs sees it.
*/
#include "graph/plan.h"
#include "op/dropout.h"
#include "op/list.h"
#include "op/reduce.h"
#include "pass.h"
#include "ridge/graph.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

static rg_tensor *square(double value)
{
  rg_tensor *x = NULL;

  must(rg_empty(RG_F32, RG_CPU, SHAPE(3, 3), 2, &x));
  must(rg_fill_(x, value));
  return x;
}

/* Behind the back of whoever counts writes. */
static void slip(rg_tensor *x, float value)
{
  for (int64_t i = 0; i < x->_count; i++) {
    ((float *)x->_data)[i] = value;
  }
}

static float first_of(const rg_tensor *x)
{
  return ((const float *)x->_data)[0];
}

typedef struct net {
  rg_graph *g;
  int32_t x;
  int32_t w;
  int32_t twice; /* 2 w */
  int32_t more;  /* 2 w + 1 */
  rg_tensor *in;
  rg_tensor *weight;
  rg_tensor *out[2];
  rg_plan *plan;
} net;

/* y = x + (2 w + 1), two derived nodes; behind as many others, an even number. */
static net new_net_behind(int32_t others)
{
  net n = { .in = square(10), .weight = square(3) };

  n.g = graph(&n.x);
  must(rg_ir_bind(n.g, n.x, n.in));
  for (int32_t i = 0; i < others; i++) {
    n.x = unary(n.g, &rg_op_neg, n.x);
  }
  n.w = outside(n.g, RG_VALUE_PARAMETER, "w", 3, 3);
  n.twice = with_number(n.g, RG_OP_MUL, n.w, 2, 0, -1);
  n.more = with_number(n.g, RG_OP_ADD, n.twice, 1, 0, -1);
  rg_ir_node_at(n.g, producer(n.g, n.twice))->derived = true;
  rg_ir_node_at(n.g, producer(n.g, n.more))->derived = true;
  must(rg_ir_bind(n.g, n.w, n.weight));
  return n;
}

static net new_net(void)
{
  return new_net_behind(0);
}

static void plan_of(net *n)
{
  returned(n->g, added(n->g, n->x, n->more), "");
  if (!is_status(rg_graph_plan(n->g, n->out, &n->plan), RG_OK, "a plan")) {
    tap_bail(rg_error_message());
  }
}

static void gives(net *n, float want, const char *what)
{
  must(rg_plan_replay(n->plan, 1));
  if (!ok(first_of(n->out[0]) == want, what)) {
    printf("# %g and not %g\n", (double)first_of(n->out[0]), (double)want);
  }
}

static void end(net *n)
{
  rg_plan_release(n->plan);
  rg_graph_release(n->g);
  rg_tensor_release(n->in);
  rg_tensor_release(n->weight);
  rg_tensor_release(n->out[0]);
  rg_tensor_release(n->out[1]);
}

static void test_runs_where_written(void)
{
  net n = new_net();

  plan_of(&n);
  gives(&n, 17, "at first all of it runs");
  slip(n.weight, 4);
  gives(&n, 17, "what nobody wrote to is not read again");
  must(rg_fill_(n.in, 20));
  gives(&n, 27, "while all else runs");
  must(rg_fill_(n.weight, 5));
  gives(&n, 31, "a write to the parameter is seen");
  slip(n.weight, 4);
  must(rg_plan_replay(n.plan, 3));
  gives(&n, 31, "once");
  end(&n);
}

/* Sums of long columns need scratch; what another derived step makes behind that is as large. */
static void test_scratch(void)
{
  enum { ROWS = 8192, COLUMNS = 64, OTHERS = 256 };
  int32_t p;
  rg_graph *g = graph(&p);
  const int32_t long_one = outside(g, RG_VALUE_PARAMETER, "p", ROWS, COLUMNS);
  const int32_t other = outside(g, RG_VALUE_PARAMETER, "q", 1, OTHERS);
  const rg_reduce_args args = { .axes = 1 };
  rg_tensor *in[2] = { NULL };
  rg_tensor *out[2] = { NULL };
  rg_plan *plan = NULL;
  int32_t node;

  must(rg_empty(RG_F32, RG_CPU, SHAPE(ROWS, COLUMNS), 2, &in[0]));
  must(rg_empty(RG_F32, RG_CPU, SHAPE(1, OTHERS), 2, &in[1]));
  must(rg_fill_(in[0], 1));
  must(rg_fill_(in[1], 3));
  must(rg_ir_bind(g, long_one, in[0]));
  must(rg_ir_bind(g, other, in[1]));
  const int32_t first = producer(g, unary(g, &rg_op_neg, other));

  must(rg_graph_insert(g, first, 1, RG_OP_SUM, &long_one, 1, &args, &node));
  rg_ir_node_at(g, node)->derived = true;
  const int32_t sum = rg_ir_outputs(g, rg_ir_node_at(g, node))[0];
  const int32_t more = unary(g, &rg_op_neg, other);

  rg_ir_node_at(g, producer(g, more))->derived = true;
  returned(g, unary(g, &rg_op_neg, sum), "");
  returned(g, unary(g, &rg_op_neg, more), "");
  must(rg_graph_plan(g, out, &plan));
  must(rg_plan_replay(plan, 1));
  ok(first_of(out[0]) == -ROWS && first_of(out[1]) == 3, "two derived steps, one with scratch");
  must(rg_fill_(in[0], 2));
  must(rg_plan_replay(plan, 1));
  ok(first_of(out[0]) == -2 * ROWS, "the one with scratch runs again");
  bool stays = true;

  for (int32_t i = 0; i < OTHERS; i++) {
    stays = stays && ((const float *)out[1]->_data)[i] == 3;
  }
  ok(stays, "and leaves what the other one made");
  rg_plan_release(plan);
  rg_graph_release(g);
  for (int32_t i = 0; i < 2; i++) {
    rg_tensor_release(in[i]);
    rg_tensor_release(out[i]);
  }
}

/* What a derived step made is there at the next replay, whatever ran since. */
static void test_memory(void)
{
  for (int32_t i = 0; i < 2; i++) {
    net n = new_net_behind(i == 0 ? 8 : 0);

    for (int32_t k = 0; k < 8 && i == 1; k++) {
      n.x = unary(n.g, &rg_op_neg, n.x);
    }
    plan_of(&n);
    gives(&n, 17, "results of many steps");
    must(rg_fill_(n.in, 11));
    gives(&n, 18, i == 0 ? "do not lie where derived ones come" : "nor where they were");
    end(&n);
  }
}

/* Marks that a file could have, and that are not believed. */
static void test_refused(void)
{
  net n = new_net();

  returned(n.g, n.more, "");
  plan_of(&n);
  gives(&n, 7, "a derived node's result that is handed out");
  must(rg_fill_(n.out[0], 100));
  gives(&n, 7, "and written to by whoever got it is made anew");
  end(&n);

  n = new_net();
  rg_tensor *into = square(0);

  must(rg_ir_graph_output(
      n.g, &(rg_ir_output){ .value = n.more, .kind = RG_OUTPUT_KEPT, .into = into }));
  must(rg_graph_plan(n.g, n.out, &n.plan));
  gives(&n, 7, "one that is made in a tensor outside");
  must(rg_fill_(into, 100));
  gives(&n, 7, "is made anew there");
  rg_tensor_release(into);
  end(&n);

  n = new_net();
  (void)node_of(n.g, &rg_op_neg, &n.twice, 1, NULL, n.twice);
  plan_of(&n);
  gives(&n, 17, "a result that a node writes over");
  slip(n.weight, 4);
  gives(&n, 19, "is made anew");
  end(&n);

  n = new_net();
  const rg_dropout_args p = { .p = 0.5 };
  int32_t dropped = node_of(n.g, &rg_op_dropout, &n.w, 1, &p, -1);

  rg_ir_node_at(n.g, producer(n.g, dropped))->derived = true;
  n.more = dropped;
  plan_of(&n);
  bool differs = false;

  for (int32_t i = 0; i < 64 && !differs; i++) {
    must(rg_plan_replay(n.plan, 1));
    const float before = first_of(n.out[0]);

    must(rg_plan_replay(n.plan, 1));
    differs = first_of(n.out[0]) != before;
  }
  ok(differs, "what draws draws again");
  end(&n);
}

/* A clone has derived results of its own, of the same parameters. */
static void test_clone(void)
{
  net n = new_net();
  rg_plan *clone = NULL;

  plan_of(&n);
  gives(&n, 17, "a plan");
  must(rg_plan_clone(n.plan, &clone));
  rg_plan_release(n.plan);
  n.plan = clone;
  rg_tensor_release(n.out[0]);
  n.out[0] = rg_tensor_retain(rg_plan_output(clone, 0));
  gives(&n, 17, "its clone");
  must(rg_fill_(n.weight, 5));
  gives(&n, 21, "which sees a write to the parameter");
  end(&n);
}

/* Each allocation of making a plan fails in turn. */
static void test_no_memory(void)
{
  int64_t tensors = rg_live_tensors();
  net n = new_net();

  rg_status status;
  int64_t i = 0;

  returned(n.g, added(n.g, n.x, n.more), "");
  do {
    rg_alloc_fail_at(++i);
    status = rg_graph_plan(n.g, n.out, &n.plan);
    rg_alloc_fail_at(0);
  } while (status == RG_ENOMEM && i < 1000);
  is_status(status, RG_OK, "a plan in the end");
  ok(i > 10, "where many allocations were refused");
  gives(&n, 17, "it computes");
  end(&n);
  is_int(rg_live_tensors(), tensors, "nothing is left");
}

int main(void)
{
  test_runs_where_written();
  test_scratch();
  test_memory();
  test_refused();
  test_clone();
  test_no_memory();
  is_int(rg_live_tensors(), 0, "no tensor is left");
  return done();
}
