-- SPDX-License-Identifier: MIT
-- op_spec: what is promised of every operation, one loop over the library's own table of them.
-- An operation without an entry in cases.lua fails.
-- LuaJIT 2.1.0-beta3 crashes now and then when it takes an array of pointers that never reached C
-- out of a compiled loop and then leaves the loop; it does not with that optimisation off.
require 'jit.opt'.start('-sink')

local ffi = require 'ffi'
local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local due = dofile(HERE .. 'due.lua')
local AUTOCAST = dofile(HERE .. 'autocast.lua')
local cases, reference, tensors = all.cases, all.reference, all.tensors
local C, takes = tensors.C, tensors.takes

local EDTYPE, ENOMEM, EARG, EINTR, ERELEASED = -2, -5, -4, -13, -15
local UNIT = { f32 = 2 ^ -23, f64 = 2 ^ -52, f16 = 2 ^ -10, bf16 = 2 ^ -7 } -- last place of 1
local LEAST = { f32 = 2 ^ -149, f64 = 2 ^ -1074, f16 = 2 ^ -24, bf16 = 2 ^ -133 }
local IS_FLOAT = { f32 = true, f64 = true, f16 = true, bf16 = true }
local IS_STORED = { f8e4m3 = true, f8e5m2 = true }

-- -- Inputs ---------------------------------------------------------------------------------------

-- The same numbers in every run, or those of RIDGE_SEED: a small linear congruential generator.
local state = due.setting('RIDGE_SEED', 1, 0)
local function number()
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536)
end

-- Values that the type holds exactly: eighths up to 4 (of 8-bit floats the nearest), integers.
local function eighth() return (number() % 65 - 32) / 8 end
local function small() return number() % 11 - 5 end
local DRAWN = { bool = function() return number() % 2 end }
DRAWN.u8 = function() return number() % 10 end
for dtype in pairs(IS_FLOAT) do DRAWN[dtype] = eighth end
for dtype in pairs(IS_STORED) do
  DRAWN[dtype] = function() return reference.convert(eighth(), dtype) end
end

local function input(shape, dtype)
  local x, draw = reference.new(shape, dtype), DRAWN[dtype] or small
  for i = 1, reference.count(shape) do x[i] = draw() end
  return x
end

local function dtype_for(entry, dtypes, i)
  return entry.inputs and entry.inputs[i] or
    type(dtypes) == 'table' and dtypes[(i - 1) % #dtypes + 1] or dtypes
end

-- The inputs of a sample as reference tensors; false where one is left out.
local function inputs_of(entry, sample, dtypes)
  local list = {}
  for i, shape in ipairs(sample) do
    list[i] = shape and input(shape, dtype_for(entry, dtypes, i))
  end
  if entry.prepare then entry.prepare(list, sample) end
  return list
end

-- Some arguments make sense for some types only.
local function suits(sample, dtypes)
  local first = type(dtypes) == 'table' and dtypes[1] or dtypes
  return not (sample.except and sample.except[first]) and (sample.only or first) == first
end

local function layouts_for(entry, sample)
  local fitting = {}
  for _, layout in ipairs(tensors.LAYOUTS) do
    local fits = not (layout.reads_only and entry.target)
    for _, shape in ipairs(sample) do fits = fits and (not shape or layout.fits(shape)) end
    if fits then fitting[#fitting + 1] = layout end
  end
  return fitting
end

local function make(list, layout)
  local t = {}
  for i, x in ipairs(list) do t[i] = x and layout.make(x) end
  return t
end

-- -- Calls --------------------------------------------------------------------------------------

local SENTINEL = ffi.cast('rg_tensor *', 0x10)
local generator = ffi.new('rg_generator *[1]')
tensors.check(C.rg_generator_new(1, generator))

-- The arguments with a stream that stands where they say.
local function arguments(sample)
  local args = { seed = 5, offset = 0, generator = generator[0] }
  for k, v in pairs(sample.args or {}) do args[k] = v end
  C.rg_generator_set(generator[0], args.seed, args.offset)
  return args
end

-- Run an operation; its results (new references, or the target) or nil and the status.
local function run(entry, t, args)
  local n = entry.n_out or 1
  local out = ffi.new('rg_tensor *[?]', n)
  for i = 0, n - 1 do out[i] = SENTINEL end
  local status = entry.call(C, t, args, out)
  if status ~= 0 then
    for i = 0, n - 1 do
      assert.is_true(out[i] == SENTINEL, 'out was written to in spite of failure')
    end
    return nil, status
  end
  if entry.target then return { t[1] } end
  local results = {}
  for i = 1, n do results[i] = tensors.hold(out[i - 1]) end
  return results
end

local function results_of(entry, t, args)
  local results, status = run(entry, t, args)
  if not results then error(tensors.failure(status), 2) end
  return results
end

-- -- Comparing ----------------------------------------------------------------------------------

local function shape_text(shape) return '[' .. table.concat(shape, ',') .. ']' end

-- Is y within so many units in the last place of x, or of what was added up to it?
local function near(y, x, dtype, ulps, magnitude)
  if x ~= x or y ~= y then return x ~= x and y ~= y end
  if y == x then return true end
  if not IS_FLOAT[dtype] then return false end
  local rounded = reference.convert(x, dtype)
  if y == rounded then return true end
  if ulps == 0 then return false end
  if math.abs(rounded) == math.huge or math.abs(y) == math.huge then
    -- at the edge of the range an error of one unit decides
    return math.abs(x) > 0.99 * (dtype == 'f64' and 1.7e308 or dtype == 'f16' and 65504 or 3.38e38)
  end
  local scale = math.max(math.abs(x), magnitude or 0)
  return math.abs(y - x) <= (ulps + 0.01) * math.max(UNIT[dtype] * scale, LEAST[dtype])
end

-- Raise unless a result is what the reference says.
local function compare(entry, result, wanted, what)
  local got = tensors.read(result)
  if got.dtype ~= wanted.dtype or shape_text(got.shape) ~= shape_text(wanted.shape) then
    error(('%s: got %s%s, wanted %s%s'):format(what, got.dtype, shape_text(got.shape), wanted.dtype,
      shape_text(wanted.shape)), 0)
  end
  for i = 1, reference.count(wanted.shape) do
    local magnitude = wanted.magnitude and wanted.magnitude[i]
    if not near(got[i], wanted[i], wanted.dtype, entry.ulps, magnitude) then
      error(('%s: element %d is %.17g, wanted %.17g'):format(what, i, got[i], wanted[i]), 0)
    end
  end
end

local function compare_all(entry, list, args, results, what, known)
  local wanted = known or entry.reference(list, args)
  if entry.check then
    local outputs = {}
    for i, result in ipairs(results) do
      outputs[i] = tensors.read(result)
      assert.are.equal(shape_text(wanted[i].shape), shape_text(outputs[i].shape))
    end
    for property, distance in pairs(entry.check(list, outputs)) do
      if not (distance <= entry.ulps * UNIT[list[1].dtype]) then
        error(('%s: %s: off by %g'):format(what, property, distance), 0)
      end
    end
    return
  end
  for i, result in ipairs(results) do compare(entry, result, wanted[i], what) end
end

local function describe_case(sample, dtypes, layout)
  local parts = { type(dtypes) == 'table' and table.concat(dtypes, ',') or dtypes, layout }
  for _, shape in ipairs(sample) do parts[#parts + 1] = shape and shape_text(shape) or 'none' end
  for k, v in pairs(sample.args or {}) do
    parts[#parts + 1] = k .. '=' .. (type(v) == 'table' and shape_text(v) or tostring(v))
  end
  return table.concat(parts, ' ')
end

-- Runs that take long, under a race checker, do not try every sample.
local is_due, asked = due.new()

-- The inputs tried last, and what the reference makes of them, which takes longer than a call: the
-- next layout or instruction set gets the same numbers.
local last = {}

-- One sample in one layout against the reference.
local function try(entry, sample, dtypes, layout)
  local key = entry.name .. (type(dtypes) == 'table' and table.concat(dtypes, ',') or dtypes)
  if not suits(sample, dtypes) or not is_due(key, entry.name .. layout.name) then return end
  local args = arguments(sample)
  if last.key ~= key or last.sample ~= sample or layout.reads_only then
    last = { key = key, sample = sample, list = inputs_of(entry, sample, dtypes) }
  end
  local t = make(last.list, layout) -- a layout that repeats elements repeats them in the list too
  last.wanted = last.wanted or entry.reference(last.list, args)
  compare_all(entry, last.list, args, results_of(entry, t, args),
    describe_case(sample, dtypes, layout.name), last.wanted)
  tensors.release_all()
end

local function bytes_of(results)
  local bytes = {}
  for i, result in ipairs(results) do bytes[i] = tensors.bytes(result) end
  return bytes[2] and table.concat(bytes) or bytes[1] or ''
end

-- -- What memory there is -----------------------------------------------------------------------

local function standing()
  return { tensors = tonumber(C.rg_live_tensors()),
    bytes = tonumber(C.rg_memory_of(0).live_bytes),
    there = tonumber(C.rg_memory_of(tensors.DEVICE).live_bytes) }
end

-- A sample with elements, to try things on: several of them where an entry has such a sample.
local function ordinary(entry)
  local single
  for _, sample in ipairs(entry.samples) do
    local n = 1
    for _, shape in ipairs(sample) do n = n * (shape and reference.count(shape) or 1) end
    if n > 1 then return sample end
    single = single or n == 1 and sample
  end
  return single
end

-- Numbers a device finds wrong while it computes are the error of the next wait for it, or of the
-- next copy from it, told once; on the CPU they are an error of the call.
local function told_late(name, results, by_copy)
  if tensors.DEVICE == 0 then return results end
  local x = results[1]
  local n = tonumber(C.rg_tensor_bytes(x))
  local status = by_copy and n > 0 and C.rg_tensor_read(x, ffi.new('char[?]', n), n) or
    C.rg_device_wait(tensors.DEVICE)
  if status == 0 then return results end
  local message = tensors.failure(status)
  assert.is_truthy(message:find('^' .. name .. ', asked of the device earlier: %l+ %-?%d+ is %l+')
    or message:find('^' .. name .. ', asked of the device earlier: nan or infinity in x$'), message)
  for _, result in ipairs(results) do C.rg_tensor_release(result) end
  tensors.forget(#results)
  assert.are.equal(0, C.rg_device_wait(tensors.DEVICE), 'an error is reported once')
  return nil, status
end

-- -- The promises -------------------------------------------------------------------------------

-- Promises about the CPU's instruction sets and threads, which another device has not.
local function it_on_cpu(what, f)
  if tensors.DEVICE == 0 then it(what, f) end
end

local function promises(name, entry)
  after_each(function()
    C.rg_alloc_fail_at(0)
    C.rg_interrupt_clear()
    C.rg_capture_cancel()
    C.rg_device_modes_now().deterministic = 0
    tensors.check(C.rg_set_isa(C.rg_machine_facts().isa_level))
    tensors.check(C.rg_set_threads(0))
    tensors.release_all()
  end)

  it('agrees with its definition in every type, layout and shape', function()
    for _, dtype in ipairs(entry.dtypes) do
      for _, sample in ipairs(entry.samples) do
        for _, layout in ipairs(layouts_for(entry, sample)) do try(entry, sample, dtype, layout) end
      end
    end
  end)

  if entry.mixed then
    it('agrees with its definition for inputs of different types', function()
      for _, dtypes in ipairs(entry.mixed) do
        for _, sample in ipairs(entry.samples) do
          if #sample > 1 then
            for _, layout in ipairs(layouts_for(entry, sample)) do
              try(entry, sample, dtypes, layout)
            end
          end
        end
      end
    end)
  end

  if entry.special then
    it('agrees with its definition for unusual numbers', function()
      for _, dtype in ipairs { 'f32', 'f64', 'f16', 'bf16',
        unpack(takes(entry, 'f8e4m3') and tensors.STORED or {}) } do
        for _, sample in ipairs { entry.special_args and { {}, args = entry.special_args } or
          entry.samples[1], unpack(entry.cast_samples or {}) } do
          local list = {}
          local n = #entry.special
          for i = 1, math.max(#sample, 1) do
            -- two inputs meet in every pair
            local shape = #sample > 1 and (i == 1 and { n, 1 } or { n }) or { n }
            list[i] = reference.new(shape, dtype)
            for j = 1, n do list[i][j] = reference.convert(entry.special[j], dtype) end
          end
          local args = arguments(sample)
          local results = results_of(entry, make(list, tensors.LAYOUTS[1]), args)
          compare_all(entry, list, args, results, dtype .. ' unusual')
        end
      end
    end)
  end

  it_on_cpu('agrees with its definition on every instruction set', function()
    for _, dtype in ipairs(entry.dtypes) do
      for _, sample in ipairs(entry.samples) do
        for level = 0, C.rg_machine_facts().isa_level do
          tensors.check(C.rg_set_isa(level))
          try(entry, sample, dtype, tensors.LAYOUTS[1])
        end
      end
    end
  end)

  it('computes under autocast in the type of its class', function()
    -- LOWER in bf16, F32 in f32, WIDEST and NONE as without; what is no number never counts
    local sample, class = ordinary(entry), AUTOCAST[name]
    assert.is_truthy(class, 'no class in tests/op/autocast.lua')
    local given = class == 'F32' and 'bf16' or 'f32'
    if not takes(entry, given) or not suits(sample, given) then return end
    local t = make(inputs_of(entry, sample, given), tensors.LAYOUTS[1])
    local plain = results_of(entry, t, arguments(sample))
    local before = C.rg_autocast_set(C.RG_BF16)
    local ok, cast = pcall(results_of, entry, t, arguments(sample))
    C.rg_autocast_set(before)
    if not ok then error(cast, 0) end
    for i, result in ipairs(cast) do
      local want = tensors.NAMES[plain[i]._dtype]
      if IS_FLOAT[want] and class == 'LOWER' then want = 'bf16' end
      if IS_FLOAT[want] and class == 'F32' then want = 'f32' end
      assert.are.equal(want, tensors.NAMES[result._dtype], 'result ' .. i)
      -- inputs are exact in every type, so both are as near as the coarser type is fine
      local a, b, most = tensors.read(plain[i]), tensors.read(result), 0
      for j = 1, reference.count(a.shape) do
        most = math.max(most, a[j] == a[j] and math.abs(a[j]) < math.huge and math.abs(a[j]) or 0)
      end
      for j = 1, reference.count(a.shape) do
        local same = a[j] == b[j] or (a[j] ~= a[j] and b[j] ~= b[j])
        assert.is_true(same or math.abs(a[j] - b[j]) <= 2 ^ -5 * most, ('result %d, element %d: '
          .. '%g under autocast, %g without'):format(i, j, b[j], a[j]))
      end
    end
  end)

  it_on_cpu('gives the same bits with one thread and with two', function()
    for _, sample in ipairs(entry.large) do
      local dtype = dtype_for(entry, entry.dtypes, 1)
      local bytes = {}
      local t = {}
      for i, shape in ipairs(sample) do
        local kind = dtype_for(entry, dtype, i)
        t[i] = tensors.empty(shape, kind)
        if IS_FLOAT[kind] then
          tensors.check(C.rg_uniform_(t[i], -2, 2, nil))
        else
          tensors.check(C.rg_arange_(t[i], 0, 0.01))
        end
      end
      for threads = 1, 2 do
        tensors.check(C.rg_set_threads(threads))
        bytes[threads] = bytes_of(results_of(entry, t, arguments(sample)))
      end
      assert.is_true(bytes[1] == bytes[2] or entry.by_library and #bytes[1] == #bytes[2],
        describe_case(sample, dtype, ''))
    end
  end)

  if entry.into then
    it('has a form that writes into its first tensor', function()
      for _, sample in ipairs(entry.samples) do
        if not (sample.args and sample.args.reversed) then
          for _, dtype in ipairs(entry.dtypes) do
            local layouts = suits(sample, dtype) and is_due('into' .. name .. dtype)
              and layouts_for({ target = true }, sample) or {}
            local list = layouts[1] and inputs_of(entry, sample, dtype)
            local wanted = list and entry.reference(list, sample.args or {})[1]
            for _, layout in ipairs(layouts) do
              local t = make(list, layout)
              local before = tensors.bytes(t[1])
              local status = entry.into(C, t, sample.args or {})
              local what = describe_case(sample, dtype, layout.name)
              if wanted.dtype == dtype
                and shape_text(wanted.shape) == shape_text(list[1].shape) then
                tensors.check(status)
                compare(entry, t[1], wanted, what)
              else
                assert.is_true(status == -1 or status == -2, what)
                assert.is_true(tensors.bytes(t[1]) == before, what)
              end
              tensors.release_all()
            end
          end
        end
      end
    end)
  end

  it('refuses what it cannot do, with a message, and leaves the results alone', function()
    for i, bad in ipairs(entry.bad) do
      local t = {}
      for j, shape in ipairs(bad[1]) do
        t[j] = tensors.LAYOUTS[1].make(input(shape, bad[2][j]))
      end
      local before = standing()
      local results, status = run(entry, t, arguments { args = bad[3] })
      if results and bad[4] == EARG then results, status = told_late(name, results, i % 2 == 0) end
      assert.is_nil(results, 'bad call ' .. i)
      assert.are.equal(bad[4], status, 'bad call ' .. i .. ': ' .. (tensors.failure(status) or ''))
      assert.is_truthy(tensors.failure(status):find('^' .. name .. '[:,] .......')) -- told_late: ,
      assert.are.same(before, standing())
    end
  end)

  if not takes(entry, 'f8e4m3') then
    it('refuses types that are only stored, in every place, and says what to do', function()
      local sample = ordinary(entry)
      for _, stored in ipairs(tensors.STORED) do
        for i = 1, #sample do
          local list = inputs_of(entry, sample, entry.dtypes[1])
          if list[i] then
            list[i].dtype = stored
            local t = make(list, tensors.LAYOUTS[1])
            local before = standing()
            local _, status = run(entry, t, arguments(sample))
            assert.are.equal(EDTYPE, status, 'input ' .. i)
            assert.is_truthy(tensors.failure(status):find(': ' .. stored
              .. ' is a type for storing; convert to f16, bf16 or f32 first', 1, true))
            assert.are.same(before, standing())
          end
        end
      end
    end)
  end

  it('refuses tensors that are missing or released', function()
    local sample = ordinary(entry)
    for i = 1, #sample do
      for _, how in ipairs { 'missing', 'released' } do
        local t = make(inputs_of(entry, sample, entry.dtypes[1]), tensors.LAYOUTS[1])
        local args = arguments(sample)
        if how == 'released' and t[i] then
          C.rg_tensor_drop(t[i])
          local _, status = run(entry, t, args)
          assert.are.equal(ERELEASED, status)
        elseif how == 'missing' and name ~= 'concat'
          and not (entry.optional and entry.optional[i]) and
          not args.value then
          t[i] = ffi.cast('rg_tensor *', nil)
          local _, status = run(entry, t, args)
          assert.are.equal(EARG, status)
        end
      end
    end
  end)

  it('stops for an interrupt and leaves nothing behind', function()
    local sample = ordinary(entry)
    local t = make(inputs_of(entry, sample, entry.dtypes[1]), tensors.LAYOUTS[1])
    local before = standing()
    C.rg_interrupt_set()
    local _, status = run(entry, t, arguments(sample))
    C.rg_interrupt_clear()
    assert.are.equal(EINTR, status)
    assert.are.same(before, standing())
  end)

  it('leaves no tensors and no memory behind, whichever allocation fails', function()
    local lists = { { entry.dtypes[1], ordinary(entry) } }
    for _, dtypes in ipairs(entry.mixed or {}) do
      lists[#lists + 1] = { dtypes, ordinary(entry) }
    end
    for _, sample in ipairs(entry.samples) do
      if is_due('fails' .. name) then lists[#lists + 1] = { entry.dtypes[1], sample } end
    end
    for _, pair in ipairs(lists) do
      local sample = pair[2]
      local t = make(inputs_of(entry, sample, pair[1]), tensors.LAYOUTS[1])
      -- what a library keeps for a shape it has seen is made before the count begins
      results_of(entry, t, arguments(sample))
      tensors.release_all()
      t = make(inputs_of(entry, sample, pair[1]), tensors.LAYOUTS[1])
      local before = standing()
      local n, finished = 0, false
      while not finished do
        n = n + 1
        C.rg_alloc_fail_at(n)
        local out = ffi.new('rg_tensor *[3]', { SENTINEL, SENTINEL, SENTINEL })
        local status = entry.call(C, t, arguments(sample), out)
        C.rg_alloc_fail_at(0)
        finished = status == 0
        if finished then
          for i = 0, entry.target and -1 or (entry.n_out or 1) - 1 do
            C.rg_tensor_release(out[i])
          end
        else
          assert.are.equal(ENOMEM, status)
          assert.is_true(out[0] == SENTINEL)
        end
        assert.are.same(before, standing(), describe_case(sample, pair[1], 'allocation ' .. n))
        assert.is_true(n < 1000)
      end
      tensors.release_all()
    end
  end)

  it('says what it costs', function()
    local sample = ordinary(entry)
    local t = make(inputs_of(entry, sample, entry.dtypes[1]), tensors.LAYOUTS[1])
    local plan = ffi.new('rg_plan *[1]')
    local args = arguments(sample)
    tensors.check(C.rg_capture_begin())
    results_of(entry, t, args)
    tensors.check(C.rg_capture_end(plan))
    local facts = ffi.new('rg_plan_facts')
    tensors.check(C.rg_plan_facts_of(plan[0], facts))
    C.rg_plan_release(plan[0])
    local largest = 0
    for _, x in ipairs(t) do
      if x then largest = math.max(largest, tonumber(C.rg_tensor_bytes(x))) end
    end
    assert.is_true(facts.bytes >= largest and facts.bytes < 1e6)
    assert.is_true(facts.flops >= 0 and facts.flops < 1e9)
    local moves = { fill = true, copy = true, concat = true, take = true }
    assert.is_true(moves[name] or entry.moves or facts.flops > 0)
  end)

  it('gives the same bits when it is replayed', function()
    C.rg_device_modes_now().deterministic = 1 -- else cuDNN has no plan for what came once
    for _, sample in ipairs { ordinary(entry), tensors.DEVICE == 0 and entry.large[1] or nil } do
      local t = make(inputs_of(entry, sample, entry.dtypes[1]), tensors.LAYOUTS[1])
      local eager = bytes_of(results_of(entry, t, arguments(sample)))
      local plan = ffi.new('rg_plan *[1]')
      local args = arguments(sample)
      tensors.check(C.rg_capture_begin())
      local results = results_of(entry, t, args)
      tensors.check(C.rg_capture_end(plan))
      assert.is_true(bytes_of(results) == eager, 'while it was captured')
      for i = 1, 2 do
        for _, result in ipairs(results) do tensors.check(C.rg_fill_(result, 1)) end
        arguments(sample)
        tensors.check(C.rg_plan_replay(plan[0], 1))
        assert.is_true(bytes_of(results) == eager, 'replay ' .. i)
      end
      tensors.release_all()
      C.rg_plan_release(plan[0])
    end
  end)
end

-- On the simulated GPU the products of these go to the stand-in for cublasLt, which counts them
-- (CALLS) and what a correct program never asks of it (MISUSES).
local BY_VENDOR = { matmul = true, linear = true, linear_dropout = true, lowrank_linear = true,
  sketched_linear = true, scaled_linear = true }
local CALLS, MISUSES, FEW = 0, 5, 20 -- where samples are left out, FEW may have none for it

local function through_vendor(name)
  if tensors.DEVICE == 0 or not (os.getenv 'RIDGE_GPU' or ''):find 'sim' then return end
  ffi.cdef 'size_t rgsim_blas_counted(int what);'
  local blas = ffi.load(os.getenv 'RIDGE_GPU')
  local before, asked_before
  setup(function() before, asked_before = blas.rgsim_blas_counted(CALLS), asked() end)
  it('went to cublasLt, in forms that it takes', function()
    local few = due.EVERY > 1 and asked() - asked_before < FEW * due.EVERY
    assert.is_true(few or blas.rgsim_blas_counted(CALLS) > before, name)
    assert.are.equal(0, tonumber(blas.rgsim_blas_counted(MISUSES)))
  end)
end

local ELSEWHERE = { fused = true } -- nobody calls one: tests/lua/graph_fused_spec.lua
tensors.check(C.rg_device_open(tensors.DEVICE))
for i = 0, C.rg_op_count() - 1 do
  local facts = ffi.new('rg_op_facts')
  tensors.check(C.rg_op_facts_of(i, facts))
  local name = ffi.string(facts.name)

  -- the CPU has all kernels, another device those that were written for it
  local there = tensors.DEVICE == 0 or C.rg_op_runs_on(i, tensors.DEVICE) == 1
  if there and not ELSEWHERE[name] then describe(name, function()
    local entry = cases[name]
    if entry then entry.name = name end
    it('has an entry, inputs, results and a line of help', function()
      assert.is_truthy(entry, 'no entry in tests/op/cases.lua')
      assert.is_true(facts.n_inputs > 0 or facts.into == 1)
      assert.is_true(#ffi.string(facts.doc) > 1)
      assert.are.equal(entry.draws and 1 or 0, facts.draws)
      -- the record as well: several inputs of one type do not distinguish WIDEST from NONE
      assert.are.equal(tonumber(C['RG_AMP_' .. AUTOCAST[name]]), facts.amp)
    end)
    if entry then promises(name, entry) end
    if BY_VENDOR[name] then through_vendor(name) end
  end) end
end
