-- SPDX-License-Identifier: MIT
-- graph_spec: every operation as a graph: recorded, checked, emitted as a plan and replayed three
-- times, each time with other numbers in its inputs, it has the bits of the call itself; its
-- gradients the same; and nothing leaks, whichever allocation fails while a plan is made.

require 'jit.opt'.start('-sink') -- see op_spec.lua

local ffi = require 'ffi'
local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local cases, tensors = all.cases, all.tensors
local reference = all.reference
local C = tensors.C

local ENOMEM = C.RG_ENOMEM
local FLOAT = { f32 = true, f64 = true, f16 = true, bf16 = true }

local generator = ffi.new 'rg_generator *[1]'
tensors.check(C.rg_generator_new(1, generator))

local state = 1
local function number()
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536)
end

local function value(dtype)
  if dtype == 'bool' then return number() % 2 end
  if dtype == 'u8' then return number() % 10 end
  if FLOAT[dtype] then return (number() % 65 - 32) / 8 end
  if dtype:find '^f8' then return reference.convert((number() % 65 - 32) / 8, dtype) end
  return number() % 11 - 5
end

local function inputs_of(entry, sample, dtype)
  local list = {}
  for i, shape in ipairs(sample) do
    local own = entry.inputs and entry.inputs[i] or dtype
    list[i] = shape and reference.new(shape, own)
    for k = 1, shape and reference.count(shape) or 0 do list[i][k] = value(own) end
  end
  if entry.prepare then entry.prepare(list, sample) end
  return list
end

local function make(list, layout)
  local t = {}
  for i, x in ipairs(list) do t[i] = x and layout.make(x) end
  return t
end

-- The arguments with a stream that stands where they say, and goes on from there.
local function arguments(sample)
  local args = { seed = 5, offset = 0, generator = generator[0] }
  for k, v in pairs(sample.args or {}) do args[k] = v end
  C.rg_generator_set(generator[0], args.seed, args.offset)
  return args
end

local slot = ffi.new 'rg_tensor *[8]'

-- One call: its results, or nothing where it is refused.
local function called(entry, t, args)
  for i = 0, 7 do slot[i] = nil end
  if entry.call(C, t, args, slot) ~= 0 then return nil end
  if entry.target then return { t[1] } end
  local results = {}
  for i = 1, entry.n_out or 1 do results[i] = tensors.hold(slot[i - 1]) end
  return results
end

-- The same and its gradients; dy: the incoming one.
local function with_gradients(entry, t, args, dy)
  for _, x in ipairs(t) do
    if x and FLOAT[tensors.NAMES[x._dtype]] then
      tensors.check(C.rg_zero_grad(x, 0))
      tensors.check(C.rg_require_grad(x, 1))
    end
  end
  local results = called(entry, t, args)
  if not results or C.rg_backward(results[1], dy(results[1]), 0) ~= 0 then return nil end
  for _, x in ipairs(t) do
    if x and C.rg_requires_grad(x) == 1 then
      tensors.check(C.rg_grad_of(x, slot))
      if slot[0] ~= nil then results[#results + 1] = tensors.hold(slot[0]) end
    end
  end
  return results
end

local function bytes_of(results)
  local list = {}
  for i, x in ipairs(results) do list[i] = tensors.bytes(x) end
  return table.concat(list, '|')
end

local function standing()
  return { tensors = tonumber(C.rg_live_tensors()),
    bytes = tonumber(C.rg_memory_of(0).live_bytes) }
end

-- The plan of a graph, after plans for which each allocation failed once.
local function refuse_allocations(graph, out, plan)
  tensors.check(C.rg_graph_check(graph)) -- puts it in order
  local before, n = standing(), 0
  repeat
    n = n + 1
    C.rg_alloc_fail_at(n)
    local status = C.rg_graph_plan(graph, out, plan)
    C.rg_alloc_fail_at(0)
    if status ~= 0 then
      assert.equal(ENOMEM, status, tensors.failure(status))
      assert.same(before, standing(), 'allocation ' .. n)
    end
  until status == 0
  assert.is_true(n > 3)
end

-- A plan of the graph of what `run` does, and its outputs.
local function planned(run, refused)
  local graph, plan = ffi.new 'rg_graph *[1]', ffi.new 'rg_plan *[1]'
  tensors.check(C.rg_capture_begin())
  tensors.check(C.rg_record_begin(0))
  local ok, results = pcall(run)
  if not ok or not results then
    C.rg_record_cancel()
    C.rg_capture_cancel()
    if not ok then error(results, 0) end
    return nil
  end
  for _, x in ipairs(results) do
    tensors.check(C.rg_record_output(x, C.RG_OUTPUT_RETURNED, nil))
  end
  tensors.check(C.rg_record_end(graph))
  C.rg_capture_cancel()
  graph = ffi.gc(graph[0], C.rg_graph_release)
  local out = ffi.new('rg_tensor *[?]', #results)
  if refused then
    refuse_allocations(graph, out, plan)
  else
    tensors.check(C.rg_graph_plan(graph, out, plan))
  end
  local outputs = {}
  for i = 1, #results do outputs[i] = tensors.hold(out[i - 1]) end
  return graph, ffi.gc(plan[0], C.rg_plan_release), outputs
end

local function copy_into(t, from)
  C.rg_grad_mode(0)
  for i, x in ipairs(t) do
    if x then tensors.check(C.rg_copy_(x, from[i])) end
  end
  C.rg_grad_mode(1)
end

local function fitting(sample)
  local list = {}
  for _, layout in ipairs(tensors.LAYOUTS) do
    local fits = not layout.reads_only
    for _, shape in ipairs(sample) do fits = fits and (not shape or layout.fits(shape)) end
    if fits then list[#list + 1] = layout end
  end
  return list
end

-- What `run` does with tensors, eager and as a plan.
local function compare(entry, sample, dtype, layout, run)
  local what = ('%s, %s'):format(dtype, layout.name)
  local t = make(inputs_of(entry, sample, dtype), layout)
  -- what a case keeps is made by its first call: a capture refuses numbers from the host
  if not run(make(inputs_of(entry, sample, dtype), layout), arguments(sample)) then
    return tensors.release_all()
  end
  local graph, plan, outputs = planned(function() return run(t, arguments(sample)) end,
    sample == entry.samples[2] and dtype == entry.dtypes[1])
  if not graph then return tensors.release_all() end
  for round = 1, 3 do
    local list = inputs_of(entry, sample, dtype)
    local eager = make(list, layout)
    local want = run(eager, arguments(sample))
    if not want then break end -- these numbers are refused
    want = bytes_of(want)
    copy_into(t, make(list, tensors.LAYOUTS[1]))
    arguments(sample)
    tensors.check(C.rg_plan_replay(plan, 1))
    assert.is_true(bytes_of(outputs) == want, what .. ', replay ' .. round)
  end
  C.rg_plan_release(ffi.gc(plan, nil))
  C.rg_graph_release(ffi.gc(graph, nil))
  tensors.release_all()
end

local names = {}
for name in pairs(cases) do names[#names + 1] = name end
table.sort(names)

for _, name in ipairs(names) do
  local entry = cases[name]
  describe('as a graph ' .. name, function()
    it('has the bits of the call', function()
      for _, sample in ipairs(entry.samples) do
        for _, dtype in ipairs(entry.dtypes) do
          if not (sample.except and sample.except[dtype]) and (sample.only or dtype) == dtype then
            for i, layout in ipairs(fitting(sample)) do
              if i > 1 and dtype ~= entry.dtypes[1] or i > 3 then break end
              compare(entry, sample, dtype, layout, function(t, args)
                return called(entry, t, args)
              end)
            end
          end
        end
      end
    end)

    it('has the bits of its gradients', function()
      if entry.target then return end
      for _, sample in ipairs(entry.samples) do
        local incoming -- made before the recording, which refuses numbers of Lua's
        local function dy(y)
          if not incoming then
            incoming = ffi.new 'rg_tensor *[1]'
            local plan = C.rg_capture_swap(nil)
            local shape = ffi.new('int64_t[8]')
            for i = 0, y._ndim - 1 do shape[i] = y._shape[i] end
            tensors.check(C.rg_empty(y._dtype, y._device, shape, y._ndim, incoming))
            tensors.check(C.rg_fill_(incoming[0], 0.75))
            C.rg_capture_swap(plan)
            tensors.hold(incoming[0])
          end
          return incoming[0]
        end
        if not sample.only or sample.only == 'f32' then
          compare(entry, sample, 'f32', tensors.LAYOUTS[1], function(t, args)
            return with_gradients(entry, t, args, dy)
          end)
        end
      end
    end)
  end)
end
