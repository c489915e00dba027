// SPDX-License-Identifier: MIT
//
// TAP for the simulator's own tests, and the little that all of them need.
#ifndef RIDGE_SIM_TEST_SIM_TAP_H
#define RIDGE_SIM_TEST_SIM_TAP_H

#include "test_sim.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

inline int tests, failures;

inline bool ok(bool good, const std::string &what)
{
  tests++;
  failures += !good;
  printf("%s %d - %s\n", good ? "ok" : "not ok", tests, what.c_str());
  fflush(stdout); // a watchdog asks which was the last
  return good;
}

inline bool gives(cudaError_t got, cudaError_t expected, const std::string &what)
{
  bool good = ok(got == expected, what);
  if (!good) printf("# got %s, not %s\n", cudaGetErrorName(got), cudaGetErrorName(expected));
  return good;
}

// -- Helpers -----------------------------------------------------------------------------

inline const char *const ORDERS[] = { "fwd", "rev", "ahead", "ahead:rev", "rand:1", "rand:2" };

inline void set_order(const char *s)
{
  setenv("RG_SIM_ORDER", s, 1);
}

// An array of the device that frees itself.
template <class T> struct Array {
  T *p = nullptr;
  int n;

  explicit Array(int count) : n(count)
  {
    cudaMalloc(reinterpret_cast<void **>(&p), bytes());
  }
  explicit Array(const std::vector<T> &v) : Array(static_cast<int>(v.size()))
  {
    cudaMemcpy(p, v.data(), bytes(), cudaMemcpyHostToDevice);
  }
  Array(const Array &) = delete;
  ~Array()
  {
    cudaFree(p);
  }
  size_t bytes(void) const
  {
    return static_cast<size_t>(n) * sizeof(T);
  }
  std::vector<T> host(void) const
  {
    std::vector<T> v(static_cast<size_t>(n));
    cudaMemcpy(v.data(), p, bytes(), cudaMemcpyDeviceToHost);
    return v;
  }
};

inline cudaStream_t new_stream(void)
{
  cudaStream_t s;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  return s;
}

inline cudaEvent_t new_event(void)
{
  cudaEvent_t e;
  cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
  return e;
}

inline std::vector<float> numbers(int n)
{
  std::vector<float> v(static_cast<size_t>(n));
  unsigned state = 1;
  for (float &x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return v;
}

// The largest difference; NaN counts as a million.
inline double distance(const std::vector<float> &a, const std::vector<double> &b)
{
  double worst = 0;
  for (size_t i = 0; i < b.size(); i++) {
    double d = std::fabs(a[i] - b[i]);
    worst = std::fmax(worst, std::isnan(d) ? 1e6 : d);
  }
  return worst;
}

inline bool all_equal(const std::vector<float> &v, float x)
{
  for (float e : v) {
    if (e != x) return false;
  }
  return true;
}

// -- The parts (test_sim_main.cpp, test_sim_work.cpp, test_sim_tensor.cpp) -----------------

double add_error(cudaStream_t s);
double softmax_error(bool barrier);

// In the order that is set; `in` names it.
void test_streams(const std::string &in);
void test_graph(const std::string &in);

void test_tensor(const std::string &in);
void test_tensor_planted(void);

void test_missing_wait(void);
void test_capture_rules(void);
void test_devices(void);

#endif
