// SPDX-License-Identifier: MIT
//
// Streams and events of the stand-in for the CUDA runtime. An asynchronous call only adds a piece
// of work to those that are pending; a call that waits runs pending work in any order that streams
// and events allow. A missing wait then gives wrong results in some order, every time.
#include "fakecuda.h"
#include "sim.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <map>

namespace fake
{

// A device takes so much work before a launch waits for room; it bounds the time to choose, too.
enum { QUEUE = 512 };

// Never destroyed: the program may free what it has while it exits.
static auto &pending = *new std::deque<Work>; // in the order of the calls
static auto &streams = *new std::set<CUstream_st *>;
static auto &events = *new std::set<CUevent_st *>;
static auto &legacy_streams = *new std::map<int, CUstream_st>; // by device

// What destroyed streams had still to do, by device: the legacy stream waits for it.
static auto &orphans = *new std::map<int, std::vector<Work>>;

// -- Running ------------------------------------------------------------------------------

static bool ready(const Node &n)
{
  for (const Work &w : n.after) {
    if (!w->done) return false;
  }
  return !n.may || n.may();
}

enum : size_t { NONE = static_cast<size_t>(-1) };

static size_t choose(void)
{
  sim::Order order = sim::order();
  std::vector<size_t> candidates;
  for (size_t i = 0; i < pending.size(); i++) {
    if (!ready(*pending[i])) continue;
    if (order == sim::FORWARD) return i; // the first, but for what waits for somebody outside
    candidates.push_back(i);
  }
  if (candidates.empty()) return NONE;
  if (order == sim::REVERSE) return candidates.back();
  return candidates[sim::order_random(candidates.size())];
}

bool progress(void)
{
  size_t i = choose();
  if (i == NONE) return false;
  Work w = pending[i];
  pending.erase(pending.begin() + static_cast<ptrdiff_t>(i));
  if (w->run && !broken()) w->run();
  w->run = nullptr;
  w->may = nullptr;
  w->done = true;
  w->after.clear();
  return true;
}

// Nothing can run until somebody outside has come: other threads may ask for something meanwhile.
static void idle(void)
{
  mutex.unlock();
  timespec t = { 0, 50000 };
  nanosleep(&t, nullptr);
  mutex.lock();
}

void wait(const Work &work)
{
  while (work && !work->done) {
    if (!progress()) idle();
  }
}

void wait_all(const std::vector<Work> &work)
{
  for (const Work &w : work)
    wait(w);
}

void host_waits(const std::vector<Work> &work)
{
  bool waits = std::any_of(work.begin(), work.end(), [](const Work &w) { return w && !w->done; });
  wait_all(work);
  if (waits) count(RGSIM_WAITS);
  if (waits && pending.empty()) count(RGSIM_IDLE);
}

void wait_device(int device)
{
  std::vector<Work> all;
  for (const Work &w : pending) {
    if (w->device == device) all.push_back(w);
  }
  host_waits(all);
}

void wait_everything(void)
{
  if (!pending.empty()) count(RGSIM_WAITS);
  while (!pending.empty()) {
    if (!progress()) idle();
  }
}

// -- Adding -----------------------------------------------------------------------------------

static void append(std::vector<Work> &to, const std::vector<Work> &from)
{
  for (const Work &w : from) {
    if (w && !w->done && std::find(to.begin(), to.end(), w) == to.end()) to.push_back(w);
  }
}

static bool is_legacy(const CUstream_st *s)
{
  return !streams.count(const_cast<CUstream_st *>(s));
}

CUstream_st *stream_of(cudaStream_t handle)
{
  if (!handle || handle == cudaStreamLegacy) {
    CUstream_st *s = &legacy_streams[current_device()];
    s->device = current_device();
    return s;
  }
  if (handle == cudaStreamPerThread || !streams.count(handle)) {
    misuse(cudaErrorInvalidResourceHandle, "%p is not a stream", static_cast<void *>(handle));
    return nullptr;
  }
  return handle;
}

std::vector<Work> before_next(CUstream_st *s)
{
  std::vector<Work> after;
  append(after, s->last);
  if (s->capture) return after;
  if (!is_legacy(s)) {
    if (s->blocking) append(after, legacy_streams[s->device].last);
    return after;
  }
  append(after, orphans[s->device]);
  orphans[s->device] = after; // those that are done are out of it
  for (CUstream_st *o : streams) {
    if (o->blocking && o->device == s->device && !o->capture) append(after, o->last);
  }
  return after;
}

Work enqueue_after(std::vector<Work> after, int device, std::function<void()> run,
                   std::function<bool()> may)
{
  Work w = std::make_shared<Node>();
  w->run = std::move(run);
  w->may = std::move(may);
  w->after = std::move(after);
  w->device = device;
  pending.push_back(w);
  while (pending.size() > (sim::order_now() ? 0 : QUEUE) && progress()) {
  }
  // A device does not wait until somebody asks for its results.
  if (sim::order() == sim::RANDOM && sim::order_random(4) == 0) progress();
  return w;
}

static void capture_work(CUstream_st *s, std::function<void()> run, Work *node)
{
  Work w = std::make_shared<Node>();
  w->run = std::move(run);
  w->after = s->last;
  w->device = s->device;
  s->capture->nodes.push_back(w);
  s->last = { w };
  if (node) *node = w;
}

// Work in the legacy stream would wait for work that is only being written down.
static cudaError_t check_implicit(CUstream_st *s)
{
  if (!is_legacy(s)) return cudaSuccess;
  for (CUstream_st *o : streams) {
    if (o->capture && o->blocking && o->device == s->device) {
      o->capture->invalid = true;
      return misuse(cudaErrorStreamCaptureImplicit,
                    "the legacy stream is used while a blocking stream is captured");
    }
  }
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> run, Work *node)
{
  if (broken()) return error(broken());
  CUstream_st *s = stream_of(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (cudaError_t e = check_implicit(s)) return e;
  if (s->capture) {
    if (s->capture->invalid) return error(cudaErrorStreamCaptureInvalidated);
    capture_work(s, std::move(run), node);
    return cudaSuccess;
  }
  Work w = enqueue_after(before_next(s), s->device, std::move(run));
  s->last = { w };
  if (node) *node = w;
  return cudaSuccess;
}

// -- What a capture forbids -----------------------------------------------------------------

cudaError_t forbid_in_capture(void)
{
  if (broken()) return error(broken());
  bool found = false;
  for (CUstream_st *s : streams) {
    if (!s->capture) continue;
    Capture &c = *s->capture;
    if (c.mode == cudaStreamCaptureModeRelaxed) continue;
    if (c.mode == cudaStreamCaptureModeThreadLocal && c.thread != std::this_thread::get_id()) {
      continue;
    }
    c.invalid = true;
    found = true;
  }
  return found ? error(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

cudaError_t forbid_in_capture_of(CUstream_st *s)
{
  if (s->capture) {
    s->capture->invalid = true;
    return error(cudaErrorStreamCaptureUnsupported);
  }
  return forbid_in_capture();
}

static double now(void)
{
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

static bool done(const std::vector<Work> &work)
{
  return std::all_of(work.begin(), work.end(), [](const Work &w) { return w->done; });
}

static cudaError_t check_event(cudaEvent_t e)
{
  if (broken()) return error(broken());
  if (events.count(e)) return cudaSuccess;
  return misuse(cudaErrorInvalidResourceHandle, "%p is not an event", static_cast<void *>(e));
}

// An event of a capture marks a place in a graph, not a time: nobody can wait for it.
static cudaError_t check_uncaptured(cudaEvent_t e)
{
  if (!e->capture) return cudaSuccess;
  if (e->capture->active) e->capture->invalid = true;
  return misuse(cudaErrorCapturedEvent, "the event was recorded in a capture");
}

static cudaError_t wait_in_capture(CUstream_st *s, CUevent_st *e)
{
  if (s->capture && s->capture->invalid) return error(cudaErrorStreamCaptureInvalidated);
  if (!e->capture) {
    s->capture->invalid = true;
    return misuse(cudaErrorStreamCaptureIsolation,
                  "a captured stream waits for an event from outside the capture");
  }
  if (!e->capture->active) return check_uncaptured(e);
  if (s->capture && s->capture != e->capture) {
    s->capture->invalid = e->capture->invalid = true;
    return misuse(cudaErrorStreamCaptureMerge, "two captures meet in one stream");
  }
  if (is_legacy(s)) {
    e->capture->invalid = true;
    return misuse(cudaErrorStreamCaptureImplicit, "the legacy stream cannot join a capture");
  }
  if (!s->capture) {
    s->capture = e->capture;
    s->capture->streams.insert(s);
    s->outside = std::move(s->last);
    s->last.clear();
  }
  append(s->last, e->at);
  return cudaSuccess;
}

size_t live_streams_and_events(void)
{
  return streams.size() + events.size();
}

} // namespace fake

using namespace fake;

extern "C" {

// -- Streams ------------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
  Lock lock;
  *out = nullptr;
  if (broken()) return error(broken());
  if (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) return error(cudaErrorInvalidValue);
  CUstream_st *s = new CUstream_st;
  s->device = current_device();
  s->blocking = !(flags & cudaStreamNonBlocking);
  streams.insert(s);
  *out = s;
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
  return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int)
{
  return cudaStreamCreateWithFlags(out, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
  Lock lock;
  *least = 0;
  *greatest = -5;
  return error(broken());
}

// The work goes on without its stream.
cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
  Lock lock;
  CUstream_st *s = stream_of(handle);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (is_legacy(s)) return misuse(cudaErrorInvalidResourceHandle, "the legacy stream stays");
  if (s->capture) {
    s->capture->streams.erase(s);
    s->capture->invalid = true;
    s->last = s->outside;
  }
  if (s->blocking) append(orphans[s->device], s->last);
  streams.erase(s);
  delete s;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
  Lock lock;
  CUstream_st *s = stream_of(handle);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (cudaError_t e = forbid_in_capture_of(s)) return e;
  host_waits(s->last);
  return error(broken());
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
  Lock lock;
  CUstream_st *s = stream_of(handle);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (cudaError_t e = forbid_in_capture_of(s)) return e;
  if (done(s->last)) return cudaSuccess;
  progress();
  return broken() ? error(broken()) : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize(void)
{
  Lock lock;
  if (cudaError_t e = forbid_in_capture()) return e;
  wait_device(current_device());
  return error(broken());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t e, unsigned)
{
  Lock lock;
  if (refused("cudaStreamWaitEvent")) return error(cudaErrorNotPermitted);
  if (cudaError_t bad = check_event(e)) return bad;
  CUstream_st *s = stream_of(handle);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (!e->recorded) return cudaSuccess;
  if (s->capture || e->capture) return wait_in_capture(s, e);
  append(s->last, e->at);
  return cudaSuccess;
}

// -- Events -----------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
  Lock lock;
  *out = nullptr;
  if (refused("cudaEventCreateWithFlags")) return error(cudaErrorNotPermitted);
  if (broken()) return error(broken());
  CUevent_st *e = new CUevent_st;
  e->device = current_device();
  e->timing = !(flags & cudaEventDisableTiming);
  events.insert(e);
  *out = e;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
  return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
  Lock lock;
  if (cudaError_t bad = check_event(e)) return bad;
  events.erase(e);
  delete e;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t handle)
{
  Lock lock;
  if (refused("cudaEventRecord")) return error(cudaErrorNotPermitted);
  if (cudaError_t bad = check_event(e)) return bad;
  CUstream_st *s = stream_of(handle);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (s->device != e->device) {
    return misuse(cudaErrorInvalidResourceHandle, "event and stream are of different devices");
  }
  e->capture = s->capture;
  e->recorded = true;
  if (s->capture) {
    // A graph has no events, only edges.
    if (s->capture->invalid) return error(cudaErrorStreamCaptureInvalidated);
    e->at = s->last;
    return cudaSuccess;
  }
  auto time = std::make_shared<double>(-1);
  Work w;
  if (cudaError_t bad = enqueue(
          handle, [time] { *time = now(); }, &w))
    return bad;
  e->time = time;
  e->at = { w };
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
  Lock lock;
  if (cudaError_t bad = check_event(e)) return bad;
  if (cudaError_t bad = check_uncaptured(e)) return bad;
  if (cudaError_t bad = forbid_in_capture()) return bad;
  host_waits(e->at);
  return error(broken());
}

// Asking takes time, in which the device goes on: a loop around this comes to its end.
cudaError_t cudaEventQuery(cudaEvent_t e)
{
  Lock lock;
  if (cudaError_t bad = check_event(e)) return bad;
  if (cudaError_t bad = check_uncaptured(e)) return bad;
  if (cudaError_t bad = forbid_in_capture()) return bad;
  if (done(e->at)) return cudaSuccess;
  progress();
  return broken() ? error(broken()) : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
  Lock lock;
  if (cudaError_t bad = check_event(a)) return bad;
  if (cudaError_t bad = check_event(b)) return bad;
  if (!a->time || !b->time || !a->timing || !b->timing) {
    return error(cudaErrorInvalidResourceHandle);
  }
  if (!done(a->at) || !done(b->at)) return cudaErrorNotReady;
  *ms = static_cast<float>((*b->time - *a->time) * 1e3);
  return cudaSuccess;
}

// -- Capture ------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode)
{
  Lock lock;
  if (broken()) return error(broken());
  CUstream_st *s = stream_of(handle);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (is_legacy(s)) {
    return misuse(cudaErrorStreamCaptureUnsupported, "the legacy stream cannot be captured");
  }
  if (s->capture) return error(cudaErrorIllegalState);
  s->capture = std::make_shared<Capture>();
  s->capture->origin = s;
  s->capture->mode = mode;
  s->capture->thread = std::this_thread::get_id();
  s->capture->streams.insert(s);
  s->outside = std::move(s->last);
  s->last.clear();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus *status)
{
  Lock lock;
  if (broken()) return error(broken());
  CUstream_st *s = stream_of(handle);
  if (!s) return cudaErrorInvalidResourceHandle;
  *status = !s->capture           ? cudaStreamCaptureStatusNone
            : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                  : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

// -- Work that waits for somebody outside --------------------------------------------------------

cudaError_t rgsim_work(cudaStream_t handle, const std::function<bool()> *may,
                       const std::function<void()> *run)
{
  Lock lock;
  if (broken()) return error(broken());
  CUstream_st *s = stream_of(handle);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (s->capture) return misuse(cudaErrorStreamCaptureUnsupported, "a collective is captured");
  s->last = { enqueue_after(before_next(s), s->device, *run, *may) };
  return cudaSuccess;
}

int rgsim_device(void)
{
  return current_device();
}

bool rgsim_is_device_memory(const void *p, size_t bytes, bool locked)
{
  if (locked) return in_device_memory(p, bytes);
  Lock lock;
  return in_device_memory(p, bytes);
}

} // extern "C"
