// SPDX-License-Identifier: MIT
//
// Graphs of the stand-in for the CUDA runtime: the end of a capture, and launching what it gave. A
// launch adds the graph's nodes to the pending work one by one, so they mix with other streams.
//
//   RG_SIM_GRAPHS=0   there is no memory for any
#include "fakecuda.h"

#include <cstdlib>
#include <map>

using namespace fake;

// A node of a graph. It names what comes before it by number: a chain of pointers would be taken
// apart by a recursion as deep as the graph.
struct Step {
  std::function<void()> run;
  std::vector<size_t> after;
  int device;
};
typedef std::shared_ptr<const std::vector<Step>> Steps;

struct CUgraph_st {
  Steps steps;
};

struct CUgraphExec_st {
  Steps steps;
  Work last; // of the launch before: launches of one graph never overlap
};

namespace fake
{

// Never destroyed: the program may free what it has while it exits.
static auto &graphs = *new std::set<CUgraph_st *>;
static auto &execs = *new std::set<CUgraphExec_st *>;

size_t live_graphs(void)
{
  return graphs.size() + execs.size();
}

// A handle that is only good for counting.
static void *opaque(const Step &step)
{
  return const_cast<Step *>(&step);
}

static void collect(const std::vector<Work> &from, std::set<Node *> *seen)
{
  std::vector<Work> stack = from;
  while (!stack.empty()) {
    Work w = stack.back();
    stack.pop_back();
    if (!seen->insert(w.get()).second) continue;
    stack.insert(stack.end(), w->after.begin(), w->after.end());
  }
}

// Whatever another stream did in the capture, the first one has to have waited for.
static bool all_joined(const Capture &c)
{
  std::set<Node *> seen;
  collect(c.origin->last, &seen);
  for (const CUstream_st *s : c.streams) {
    for (const Work &w : s->last) {
      if (!seen.count(w.get())) return false;
    }
  }
  return true;
}

static void leave_capture(Capture &c)
{
  c.active = false;
  for (CUstream_st *s : c.streams) {
    s->capture.reset();
    s->last = std::move(s->outside);
    s->outside.clear();
  }
}

// Takes the capture's nodes apart: nobody needs them after this.
static Steps take_steps(Capture &c)
{
  std::map<Node *, size_t> numbers;
  auto steps = std::make_shared<std::vector<Step>>();
  for (const Work &w : c.nodes) {
    Step step = { w->run, {}, w->device };
    for (const Work &before : w->after)
      step.after.push_back(numbers.at(before.get()));
    numbers[w.get()] = steps->size();
    steps->push_back(step);
  }
  for (const Work &w : c.nodes)
    w->after.clear();
  return steps;
}

static void launch(CUgraphExec_st *x, CUstream_st *s)
{
  std::vector<Work> works, first = before_next(s);
  if (x->last && !x->last->done) first.push_back(x->last);
  for (const Step &step : *x->steps) {
    std::vector<Work> after;
    for (size_t i : step.after)
      after.push_back(works[i]);
    works.push_back(enqueue_after(step.after.empty() ? first : after, step.device, step.run));
  }
  x->last = enqueue_after(works.empty() ? first : works, s->device, nullptr);
  s->last = { x->last };
}

} // namespace fake

extern "C" {

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *out)
{
  Lock lock;
  *out = nullptr;
  CUstream_st *s = stream_of(handle);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (!s->capture) return misuse(cudaErrorIllegalState, "the stream is not captured");
  std::shared_ptr<Capture> c = s->capture;
  if (c->origin != s) {
    c->invalid = true;
    return misuse(cudaErrorStreamCaptureUnmatched, "the capture began in another stream");
  }
  if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id()) {
    return misuse(cudaErrorStreamCaptureWrongThread, "the capture began in another thread");
  }
  bool joined = all_joined(*c);
  leave_capture(*c);
  Steps steps = take_steps(*c);
  if (c->invalid) return error(cudaErrorStreamCaptureInvalidated);
  if (!joined) {
    return misuse(cudaErrorStreamCaptureUnjoined,
                  "a stream of the capture has work that its first stream never waited for");
  }
  *out = new CUgraph_st{ steps };
  graphs.insert(*out);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n)
{
  Lock lock;
  if (!graphs.count(g)) return misuse(cudaErrorInvalidValue, "not a graph");
  size_t have = g->steps->size();
  if (nodes) {
    for (size_t i = 0; i < *n; i++) {
      nodes[i] = i < have ? reinterpret_cast<cudaGraphNode_t>(opaque(g->steps->at(i))) : nullptr;
    }
    if (*n > have) *n = have;
  } else {
    *n = have;
  }
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t g, unsigned long long)
{
  Lock lock;
  *out = nullptr;
  if (broken()) return error(broken());
  if (!graphs.count(g)) return misuse(cudaErrorInvalidValue, "not a graph");
  const char *s = getenv("RG_SIM_GRAPHS");
  if (s && *s == '0') return error(cudaErrorMemoryAllocation);
  *out = new CUgraphExec_st{ g->steps, nullptr };
  execs.insert(*out);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t handle)
{
  Lock lock;
  if (broken()) return error(broken());
  if (!execs.count(x)) return misuse(cudaErrorInvalidValue, "not an instantiated graph");
  CUstream_st *s = stream_of(handle);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (s->capture) {
    s->capture->invalid = true;
    return misuse(cudaErrorNotSupported, "graphs inside graphs are not covered");
  }
  count(RGSIM_GRAPHS);
  launch(x, s);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
  Lock lock;
  if (!graphs.erase(g)) return misuse(cudaErrorInvalidValue, "not a graph");
  delete g;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x)
{
  Lock lock;
  if (!execs.erase(x)) return misuse(cudaErrorInvalidValue, "not an instantiated graph");
  delete x;
  return cudaSuccess;
}

} // extern "C"
