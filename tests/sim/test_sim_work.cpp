// SPDX-License-Identifier: MIT
//
// Tests of the stand-in for the CUDA runtime: what streams, events, captures and devices promise,
// and that a program which relies on more is wrong in some order.
#include "fakecuda.h"
#include "test_sim_tap.h"

// -- Streams and events -------------------------------------------------------------------

// One stream fills and scales, another one copies the result; with or without waiting for it.
static bool two_streams_right(bool waits)
{
  enum { N = 64 };
  cudaStream_t a = new_stream(), b = new_stream();
  cudaEvent_t e = new_event();
  std::vector<float> x(N, 1.0f);
  Array<float> dx(N), dy(N);
  cudaMemcpyAsync(dx.p, x.data(), dx.bytes(), cudaMemcpyHostToDevice, a);
  test_scale(dx.p, 3.0f, N, a);
  cudaEventRecord(e, a);
  if (waits) cudaStreamWaitEvent(b, e, 0);
  cudaMemcpyAsync(dy.p, dx.p, dx.bytes(), cudaMemcpyDeviceToDevice, b);
  cudaStreamSynchronize(b);
  bool right = all_equal(dy.host(), 3.0f);
  cudaDeviceSynchronize();
  cudaEventDestroy(e);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  return right;
}

// Pinned memory is read when the copy runs, not when it is called.
static bool pinned_copy_right(bool waits)
{
  enum { N = 64 };
  cudaStream_t s = new_stream();
  Array<float> dx(N);
  float *pinned = nullptr;
  cudaMallocHost(reinterpret_cast<void **>(&pinned), dx.bytes());
  for (int i = 0; i < N; i++)
    pinned[i] = 1.0f;
  cudaMemcpyAsync(dx.p, pinned, dx.bytes(), cudaMemcpyHostToDevice, s);
  if (waits) cudaStreamSynchronize(s);
  for (int i = 0; i < N; i++)
    pinned[i] = 2.0f;
  cudaStreamSynchronize(s);
  bool right = all_equal(dx.host(), 1.0f);
  cudaFreeHost(pinned);
  cudaStreamDestroy(s);
  return right;
}

// The legacy stream waits for blocking streams, and they for it, without events.
static bool legacy_right(void)
{
  enum { N = 64 };
  cudaStream_t s;
  cudaStreamCreateWithFlags(&s, cudaStreamDefault);
  Array<float> a(std::vector<float>(N, 1.0f)), b(N);
  test_scale(a.p, 2.0f, N, nullptr);
  test_add(b.p, a.p, a.p, N, s);
  test_scale(b.p, 2.0f, N, nullptr);
  bool right = all_equal(b.host(), 8.0f);
  cudaStreamDestroy(s);
  return right;
}

static bool query_ends(void)
{
  cudaEvent_t a, b;
  cudaEventCreate(&a);
  cudaEventCreate(&b);
  cudaStream_t s = new_stream();
  cudaEventRecord(a, s);
  for (int i = 0; i < 20; i++)
    test_nothing(dim3(3), dim3(64), 0, s);
  cudaEventRecord(b, s);
  int rounds = 0;
  while (cudaEventQuery(b) == cudaErrorNotReady)
    rounds++;
  float ms = -1;
  bool timed = cudaEventElapsedTime(&ms, a, b) == cudaSuccess && ms > 0;
  cudaEventDestroy(a);
  cudaEventDestroy(b);
  cudaStreamDestroy(s);
  return timed && rounds > 0 && cudaPeekAtLastError() == cudaSuccess;
}

static bool host_threads_right(void)
{
  enum { THREADS = 4, ROUNDS = 20 };
  int right[THREADS] = {};
  std::vector<std::thread> threads;
  for (int &r : right) {
    threads.emplace_back([&r] {
      cudaStream_t s = new_stream();
      for (int i = 0; i < ROUNDS; i++)
        r += add_error(s) == 0 && softmax_error(true) < 1e-6;
      cudaStreamDestroy(s);
    });
  }
  for (std::thread &t : threads)
    t.join();
  for (int r : right) {
    if (r != ROUNDS) return false;
  }
  return true;
}

void test_streams(const std::string &in)
{
  ok(two_streams_right(true), "a stream that waits for an event" + in);
  ok(pinned_copy_right(true), "a copy from pinned memory" + in);
  ok(legacy_right(), "the legacy stream" + in);
  ok(query_ends(), "asking an event until it has passed" + in);
  ok(host_threads_right(), "four threads of the host" + in);
}

void test_missing_wait(void)
{
  int streams = 0, pinned = 0;
  for (const char *order : ORDERS) {
    set_order(order);
    streams += !two_streams_right(false);
    pinned += !pinned_copy_right(false);
  }
  ok(streams > 0, "a stream that does not wait is wrong in some order");
  ok(pinned > 0, "writing to pinned memory too early is wrong in some order");
}

// -- Capture ----------------------------------------------------------------------------------

struct Forked {
  cudaStream_t a = new_stream(), b = new_stream();
  cudaEvent_t fork = new_event(), join = new_event();

  ~Forked()
  {
    cudaEventDestroy(fork);
    cudaEventDestroy(join);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
  }
};

// y = 2 x in a forked stream, x = 2 x before and y = 3 y behind it.
static cudaError_t capture(Forked &f, Array<float> &x, Array<float> &y, bool joins, cudaGraph_t *g)
{
  cudaStreamBeginCapture(f.a, cudaStreamCaptureModeThreadLocal);
  test_scale(x.p, 2.0f, x.n, f.a);
  cudaEventRecord(f.fork, f.a);
  cudaStreamWaitEvent(f.b, f.fork, 0);
  test_add(y.p, x.p, x.p, x.n, f.b);
  cudaEventRecord(f.join, f.b);
  if (joins) {
    cudaStreamWaitEvent(f.a, f.join, 0);
    test_scale(y.p, 3.0f, x.n, f.a);
  }
  return cudaStreamEndCapture(f.a, g);
}

void test_graph(const std::string &in)
{
  Forked f;
  Array<float> x(std::vector<float>(64, 1.0f)), y(64);
  cudaGraph_t g = nullptr;
  cudaGraphExec_t exec = nullptr;
  gives(capture(f, x, y, true, &g), cudaSuccess, "a capture with a fork and a join" + in);
  ok(all_equal(x.host(), 1.0f), "a capture runs nothing" + in);
  size_t nodes = 0;
  cudaGraphGetNodes(g, nullptr, &nodes);
  ok(nodes == 3, "its nodes are the work, not the events" + in);
  gives(cudaGraphInstantiate(&exec, g, 0), cudaSuccess, "the graph is instantiated" + in);
  cudaGraphDestroy(g);
  for (int i = 0; i < 3; i++)
    cudaGraphLaunch(exec, f.a);
  cudaStreamSynchronize(f.a);
  ok(all_equal(x.host(), 8.0f) && all_equal(y.host(), 48.0f), "and launched three times" + in);
  cudaGraphExecDestroy(exec);
}

static cudaError_t capture_around(cudaError_t expected, const char *what, cudaError_t (*call)(void))
{
  cudaStream_t s = new_stream();
  cudaGraph_t g = nullptr;
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  gives(call(), expected, what);
  cudaStreamCaptureStatus status;
  cudaStreamIsCapturing(s, &status);
  ok(status == cudaStreamCaptureStatusInvalidated, "the capture is invalid then");
  cudaError_t e = cudaStreamEndCapture(s, &g);
  cudaStreamDestroy(s);
  cudaGetLastError();
  return e;
}

void test_capture_rules(void)
{
  set_order("fwd");
  Forked f;
  Array<float> x(std::vector<float>(64, 1.0f)), y(64);
  cudaGraph_t g = nullptr;
  gives(capture(f, x, y, false, &g), cudaErrorStreamCaptureUnjoined, "a fork that never joins");
  ok(g == nullptr, "gives no graph");
  gives(test_scale(x.p, 2.0f, 64, f.b), cudaSuccess, "its streams can be used again");

  gives(capture_around(cudaErrorStreamCaptureUnsupported, "cudaMalloc in a capture",
                       [] {
                         void *p;
                         return cudaMalloc(&p, 4);
                       }),
        cudaErrorStreamCaptureInvalidated, "and gives no graph");
  gives(capture_around(cudaErrorStreamCaptureUnsupported, "waiting for the device in a capture",
                       [] { return cudaDeviceSynchronize(); }),
        cudaErrorStreamCaptureInvalidated, "and gives no graph");

  cudaEventRecord(f.fork, f.b);
  cudaStreamBeginCapture(f.a, cudaStreamCaptureModeGlobal);
  gives(cudaStreamWaitEvent(f.a, f.fork, 0), cudaErrorStreamCaptureIsolation,
        "waiting in a capture for an event outside");
  cudaStreamEndCapture(f.a, &g);

  cudaStreamBeginCapture(f.a, cudaStreamCaptureModeGlobal);
  cudaEventRecord(f.fork, f.a);
  gives(cudaEventSynchronize(f.fork), cudaErrorCapturedEvent, "waiting for an event of a capture");
  cudaStreamEndCapture(f.a, &g);

  cudaStreamBeginCapture(f.a, cudaStreamCaptureModeRelaxed);
  cudaStreamCaptureStatus status;
  cudaStreamIsCapturing(f.a, &status);
  ok(status == cudaStreamCaptureStatusActive, "a stream knows that it is captured");
  gives(cudaStreamEndCapture(f.a, &g), cudaSuccess, "an empty capture");
  cudaGraphDestroy(g);
  gives(cudaStreamEndCapture(f.a, &g), cudaErrorIllegalState, "ending no capture");
  cudaGetLastError();
}

// -- Devices ----------------------------------------------------------------------------------

void test_devices(void)
{
  int n = -1, value = 0;
  setenv("RG_SIM_DEVICES", "0", 1);
  gives(cudaGetDeviceCount(&n), cudaErrorNoDevice, "no device");
  ok(n == 0, "none is counted");
  void *p = nullptr;
  gives(cudaMalloc(&p, 4), cudaErrorNoDevice, "and none has memory");
  setenv("RG_SIM_DEVICES", "2", 1);
  gives(cudaGetDeviceCount(&n), cudaSuccess, "two devices");
  gives(cudaSetDevice(2), cudaErrorInvalidDevice, "but no third one");
  cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 1);
  ok(value == 9, "both have a compute capability");
  cudaStream_t a = new_stream();
  cudaEvent_t e = new_event();
  cudaSetDevice(1);
  cudaStream_t b = new_stream();
  gives(test_nothing(dim3(1), dim3(1), 0, a), cudaErrorInvalidResourceHandle,
        "a kernel for the other device's stream");
  gives(cudaEventRecord(e, b), cudaErrorInvalidResourceHandle,
        "the other device's event in this one's stream");
  gives(cudaEventRecord(e, a), cudaSuccess, "an event in its own device's stream");
  gives(cudaStreamWaitEvent(b, e, 0), cudaSuccess, "is good for a stream of this one");
  cudaSetDevice(0);
  cudaDeviceSynchronize();
  cudaEventDestroy(e);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  unsetenv("RG_SIM_DEVICES");
  cudaGetLastError();
}
