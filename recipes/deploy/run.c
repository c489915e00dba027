/* SPDX-License-Identifier: MIT */
/*
** A net without Lua: reads what pack.lua wrote, runs it on an input, prints its first output.
**
**     cc -Icore recipes/deploy/run.c -o run -Lbuild -lridge -Wl,-rpath,$PWD/build \
**       -Wl,--allow-shlib-undefined    (the library's parts for Lua, which nothing here calls)
**     ./run FOLDER INPUT.npy
*/
#include <stdio.h>
#include <stdlib.h>

#include "ridge.h"

static int fail(const char *what)
{
  fprintf(stderr, "run: %s\n", what);
  return 1;
}

/* A whole file, and its bytes; NULL: it cannot be read. */
static char *read_file(const char *path, long *n)
{
  FILE *f = fopen(path, "rb");
  char *text = NULL;
  if (f != NULL && fseek(f, 0, SEEK_END) == 0 && (*n = ftell(f)) >= 0) {
    rewind(f);
    text = malloc((size_t)*n + 1);
    if (text != NULL && fread(text, 1, (size_t)*n, f) != (size_t)*n) {
      free(text);
      text = NULL;
    }
  }
  if (f != NULL) fclose(f);
  return text;
}

/* The numbers of a .npy file; that they are as many bytes as x has ridge asks. */
static int fill(rg_tensor *x, const char *path)
{
  long n;
  char *npy = read_file(path, &n);
  if (npy == NULL || n < 10) return fail(path);
  long head = 10 + (unsigned char)npy[8] + 256L * (unsigned char)npy[9];
  rg_status status = rg_tensor_write(x, npy + head, n - head);
  free(npy);
  return status == RG_OK ? 0 : fail(rg_error_message());
}

#define TRY(call) \
  if ((call) != RG_OK) return fail(rg_error_message())

int main(int argc, char **argv)
{
  char path[4096];
  rg_graph *graph;
  rg_graph_facts facts;
  rg_plan *plan;
  rg_tensor *x, **outputs;
  long n;

  if (argc != 3) return fail("run FOLDER INPUT.npy");
  snprintf(path, sizeof(path), "%s/graph.json", argv[1]);
  char *text = read_file(path, &n);
  if (text == NULL) return fail(path);
  TRY(rg_graph_parse(text, n, &graph));
  rg_graph_facts_of(graph, &facts);
  for (int32_t i = 0, given = 0; i < facts.n_value_ids; i++) {
    rg_graph_value v;
    TRY(rg_graph_value_of(graph, i, &v));
    if (v.kind == RG_VALUE_INTERMEDIATE) continue;
    TRY(rg_empty(v.dtype, RG_CPU, v.shape, v.ndim, &x));
    if (v.kind != RG_VALUE_INPUT) {
      snprintf(path, sizeof(path), "%s/%d.npy", argv[1], ++given);
      if (fill(x, path) != 0) return 1;
      rg_tensor_set_param(x, 1); /* kernels may keep a packed copy of it */
    }
    TRY(rg_graph_bind(graph, i, x));
    rg_tensor_release(x);
  }
  outputs = calloc((size_t)facts.n_outputs + 1, sizeof(*outputs));
  if (outputs == NULL) return fail("no memory");
  TRY(rg_graph_plan(graph, outputs, &plan));
  if (facts.n_inputs != 1 || facts.n_outputs < 1 || outputs[0]->_dtype != RG_F32) {
    return fail("a net of one input is wanted, whose first output is f32");
  }
  if (fill(rg_plan_input(plan, 0), argv[2]) != 0) return 1;
  TRY(rg_plan_replay(plan, 1));
  for (int64_t i = 0; i < outputs[0]->_count; i++) {
    printf("%.9g\n", (double)((const float *)outputs[0]->_data)[i]);
  }
  return 0;
}
