-- SPDX-License-Identifier: MIT
-- grad_spec: the gradient of every operation that has one against finite differences in f64, over
-- the samples and layouts of cases.lua; and in the lower-precision types against that in f64.  With
-- RIDGE_TEST_DEVICE on that device, for the operations that have a kernel there.

require 'jit.opt'.start('-sink') -- see op_spec.lua

local ffi = require 'ffi'
local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local cases, tensors = all.cases, all.tensors
local reference = all.reference
local C, takes = tensors.C, tensors.takes

local EPSILON, TOLERANCE = 1e-6, 1e-6
local INPUTS = 16 -- of a call with more of them every second, third ... is moved
local DIRECTIONS = tensors.DEVICE == 0 and 3 or 1 -- to move an input in
local MOST = 4000 -- elements of an input: finite differences cost two calls for each direction

local slot = ffi.new('rg_tensor *[8]')
local generator = ffi.new('rg_generator *[1]')
tensors.check(C.rg_generator_new(1, generator))

-- Numbers in (0.2, 1.2) or their negatives: away from the kinks at 0 and from the poles.
local state = 1
local function number()
  state = (state * 1103515245 + 12345) % 2147483648
  local u = math.floor(state / 65536) / 32768
  return u < 0.5 and -0.2 - 2 * u or 2 * u - 0.8
end

local POSITIVE = { log = true, log1p = true, log2 = true, sqrt = true, rsqrt = true, pow = true }
local INSIDE = { asin = 0.6, acos = 0.6, atanh = 0.6 } -- of -1 .. 1
local ABOVE = { acosh = 1 }

local JUMPS = { sign = true, floor = true, ceil = true, round = true }

-- which: of a call's inputs, whose elements differ from those of the others, too.
local function input(name, shape, dtype, which)
  local x, apart = reference.new(shape, dtype), which * 3e-5
  for i = 1, reference.count(shape) do
    local v = number()
    if POSITIVE[name] then v = math.abs(v) end
    if ABOVE[name] then v = math.abs(v) + ABOVE[name] end
    v = v * (INSIDE[name] or 1)
    if dtype == 'u8' then v = math.floor(math.abs(v) * 200) end
    if dtype == 'bool' then v = v > 0 and 1 or 0 end
    -- no two elements equal: at a tie a maximum has no derivative
    x[i] = (dtype == 'u8' or dtype == 'bool') and v or v + i * 1e-4 + apart
  end
  for i = 1, JUMPS[name] and #x or 0 do -- not within a step of a jump, which is no derivative
    if math.abs(2 * x[i] - math.floor(2 * x[i] + 0.5)) < 0.002 then x[i] = x[i] + 0.01 end
  end
  -- what is put in order must not change places for the smallest step: 4001 is a prime
  for i = 1, (name == 'sort' or name == 'topk') and #x or 0 do x[i] = i * 7919 % 4001 / 1000 - 2 end
  -- where singular values lie close together a gradient, which divides by their gaps, is steeper
  -- than finite differences can see
  for i = 1, name == 'svd' and math.min(shape[1], shape[2]) or 0 do
    local at = (i - 1) * shape[2] + i
    x[at] = x[at] + 8 * i
  end
  return x
end

local function arguments(sample)
  local args = { seed = 5, offset = 0, generator = generator[0] }
  for k, v in pairs(sample.args or {}) do args[k] = v end
  C.rg_generator_set(generator[0], args.seed, args.offset)
  return args
end

-- Result k of a call.
local function call(entry, t, sample, k)
  for i = 0, 7 do slot[i] = nil end
  tensors.check(entry.call(C, t, arguments(sample), slot))
  for i = 0, (entry.n_out or 1) - 1 do tensors.hold(slot[i]) end
  return slot[k - 1]
end

local function dot(x, y)
  local sum = 0
  for i = 1, #x do sum = sum + x[i] * y[i] end
  return sum
end

local function random_like(shape)
  local v = reference.new(shape, 'f64')
  for i = 1, reference.count(shape) do v[i] = number() end
  return v
end

local function moved(x, v, by)
  local y = reference.new(x.shape, x.dtype)
  for i = 1, #x do y[i] = x[i] + by * v[i] end
  return y
end

-- The gradients of <dy, result k of f(list)> with respect to the float inputs.
local function gradients(entry, sample, list, dy, dtype, layout, k)
  local t = {}
  for i, x in ipairs(list) do
    t[i] = x and (x.dtype == 'u8' and tensors.LAYOUTS[1] or layout).make(x)
    if x and x.dtype == dtype then tensors.check(C.rg_require_grad(t[i], 1)) end
  end
  local y = call(entry, t, sample, k or 1)
  local arriving = tensors.make(dy, dy.shape, tensors.NAMES[y._dtype])
  tensors.check(C.rg_backward(y, arriving, 0))
  local found = {}
  for i, x in ipairs(list) do
    if x and x.dtype == dtype then
      tensors.check(C.rg_grad_of(t[i], slot))
      found[i] = slot[0] ~= nil and tensors.read(tensors.hold(slot[0])) or false
    end
  end
  return found
end

local function output(entry, sample, list, k)
  local t = {}
  for i, x in ipairs(list) do t[i] = x and tensors.make(x, x.shape, x.dtype) end
  local y = tensors.read(call(entry, t, sample, k or 1))
  tensors.release_all()
  return y
end

-- What finite differences are made of: by the CPU, whichever device computes the gradient; op_spec
-- says that both compute the same. On the device itself where a sample brings tensors that lie
-- there, which the CPU refuses, and where results may differ: in the signs of singular vectors.
local function moved_output(name, ...)
  local device = tensors.DEVICE
  if device == 0 or name == 'svd' then return output(...) end
  tensors.DEVICE = 0
  local ok, y = pcall(output, ...)
  tensors.DEVICE = device
  return ok and y or output(...)
end

local function inputs_for(name, entry, sample, dtype)
  local list = {}
  for i, shape in ipairs(sample) do
    list[i] = shape and input(name, shape, entry.inputs and entry.inputs[i] or dtype, i)
  end
  if name == 'celu' then -- what divides: below 0 the exponential grows beyond half types
    local y = sample.args and sample.args.reversed and list[1] or list[2] or {}
    for i, v in ipairs(y) do y[i] = math.abs(v) end
  end
  return list
end

local function check_result(name, entry, sample, layout, k)
  local list = inputs_for(name, entry, sample, 'f64')
  local y = output(entry, sample, list, k)
  if y.dtype ~= 'f64' then return end -- a lower-precision type goes up in steps
  local dy = random_like(y.shape)
  local found = gradients(entry, sample, list, dy, 'f64', layout, k)
  local step = math.ceil(#list / INPUTS)
  for i, x in ipairs(list) do
    if x and x.dtype == 'f64' and i % step == 0 then
      for _ = 1, DIRECTIONS do
        local v = random_like(x.shape)
        list[i] = moved(x, v, EPSILON)
        local up = dot(moved_output(name, entry, sample, list, k), dy)
        list[i] = moved(x, v, -EPSILON)
        local down = dot(moved_output(name, entry, sample, list, k), dy)
        list[i] = x
        local wanted = (up - down) / (2 * EPSILON)
        local got = found[i] and dot(found[i], v) or 0
        local scale = math.max(1, math.abs(wanted), math.sqrt(#dy))
        if math.abs(got - wanted) > TOLERANCE * scale * 20 then
          error(('%s %s input %d: gradient along a direction is %.9g, wanted %.9g'):format(name,
            layout.name, i, got, wanted), 0)
        end
      end
    end
  end
  tensors.release_all()
end

local function check_sample(name, entry, sample, layout)
  for k = 1, entry.n_out or 1 do check_result(name, entry, sample, layout, k) end
end

-- Runs that take long do not try every sample, as in op_spec.
local is_due = dofile(HERE .. 'due.lua').new()

local function small(sample)
  for _, shape in ipairs(sample) do
    local count = shape and reference.count(shape) or 1
    if count > MOST or count == 0 then return false end
  end
  return true
end

-- Gradients in a lower-precision type beside those in f64, of the same numbers.
local UNIT = { f32 = 2 ^ -23, f16 = 2 ^ -10, bf16 = 2 ^ -7 }

-- The gradient of svd divides by the gaps between singular values, and errors with it.
local ONLY_F64 = { svd = true }

local function check_lower(name, entry, sample, dtype)
  if sample.except and sample.except[dtype] then return end
  local list, wide = inputs_for(name, entry, sample, dtype), {}
  for i, x in ipairs(list) do
    wide[i] = x and reference.new(x.shape, x.dtype == dtype and 'f64' or x.dtype)
    for j = 1, x and #x or 0 do
      x[j] = reference.convert(x[j], x.dtype)
      wide[i][j] = x[j]
    end
  end
  local y = output(entry, sample, wide, 1)
  if y.dtype ~= 'f64' then return end
  local dy = random_like(y.shape)
  for i = 1, #dy do dy[i] = reference.convert(dy[i], dtype) end
  local wanted = gradients(entry, sample, wide, dy, 'f64', tensors.LAYOUTS[1], 1)
  local found = gradients(entry, sample, list, dy, dtype, tensors.LAYOUTS[1], 1)
  for i = 1, #list do
    local most = 1
    local n = wanted[i] and #wanted[i] or 0
    for j = 1, n do
      local size = math.abs(wanted[i][j])
      if size < math.huge then most = math.max(most, size) end
    end
    for j = 1, n do
      local got, want = found[i][j], wanted[i][j]
      local same = got == want or got ~= got and want ~= want
      if not same and not (math.abs(got - want) <= 64 * UNIT[dtype] * most) then
        error(('%s %s input %d: gradient %d is %.9g, wanted %.9g'):format(name, dtype, i, j, got,
          want), 0)
      end
    end
  end
  tensors.release_all()
end

-- The fixed signs of a stored sketch get no gradient by design.
local FIXED = { sketched_linear = true }
-- They have steps, which finite differences meet now and then: CHOSEN has them.
local STEPS = { floor_divide = true, trunc_divide = true, remainder = true, fmod = true,
  threshold = true }
local DIFFERENTIABLE = function(name, facts)
  return facts.has_grad == 1 and not FIXED[name] and not STEPS[name]
end

-- What has a gradient, by hand: a record that lost its own would not be tried at all.
local HAS_GRADIENT = {}
for name in ([[neg abs sign square relu floor ceil round sqrt rsqrt reciprocal exp log log1p
    sin cos tanh erf sigmoid gelu silu softplus trunc exp2 expm1 log2 tan asin acos atan sinh cosh
    asinh acosh atanh selu mish softsign hardsigmoid hardswish relu6 add sub mul div pow maximum
    minimum remainder fmod floor_divide trunc_divide atan2 prelu elu celu threshold act_back
    where copy cast concat cumsum take take_back dropout dropout_back sum mean prod max min norm
    softmax softmax_back layer_norm attention attention_dropout cross_entropy cross_entropy_back
    total_norm matmul linear linear_dropout lowrank_linear sketched_linear sketched_linear_bits
    sketched_linear_seed conv2d conv2d_back_data conv2d_back_weight max_pool2d avg_pool2d
    avg_pool2d_back svd gather scatter sort topk pad pad_back
    tril triu resample resample_back cumprod]]):gmatch '%S+' do
  HAS_GRADIENT[name] = true
end

describe('the records', function()
  it('have the gradients that they should', function()
    local facts, found = ffi.new('rg_op_facts'), {}
    for i = 0, C.rg_op_count() - 1 do
      tensors.check(C.rg_op_facts_of(i, facts))
      if facts.has_grad == 1 then found[ffi.string(facts.name)] = true end
    end
    assert.are.same(HAS_GRADIENT, found)
  end)
end)

tensors.check(C.rg_device_open(tensors.DEVICE))

for i = 0, C.rg_op_count() - 1 do
  local facts = ffi.new('rg_op_facts')
  tensors.check(C.rg_op_facts_of(i, facts))
  local name = ffi.string(facts.name)
  local entry = cases[name]
  local there = tensors.DEVICE == 0 or C.rg_op_runs_on(i, tensors.DEVICE) == 1

  if there and entry and not entry.target and takes(entry, 'f64')
    and DIFFERENTIABLE(name, facts) then
    describe('the gradient of ' .. name, function()
      after_each(function() tensors.release_all() end)

      it('is what finite differences say, for every sample and layout', function()
        for _, sample in ipairs(entry.samples) do
          if small(sample) then
            for _, layout in ipairs(tensors.LAYOUTS) do
              local fits = not layout.reads_only
              for _, shape in ipairs(sample) do
                fits = fits and (not shape or layout.fits(shape))
              end
              if fits and is_due(name .. layout.name) then
                check_sample(name, entry, sample, layout)
              end
            end
          end
        end
      end)

      it('is in lower-precision types that in f64, as far as they reach', function()
        for _, dtype in ipairs { 'f32', 'f16', 'bf16' } do
          for _, sample in ipairs(takes(entry, dtype) and not ONLY_F64[name]
            and entry.samples or {}) do
            if small(sample) and is_due(name .. dtype) then
              check_lower(name, entry, sample, dtype)
            end
          end
        end
      end)

      it('leaves nothing behind', function()
        local sample
        for _, candidate in ipairs(entry.samples) do
          sample = sample or small(candidate) and candidate
        end
        local function once()
          local list = inputs_for(name, entry, sample, 'f64')
          gradients(entry, sample, list, random_like(output(entry, sample, list).shape), 'f64',
            tensors.LAYOUTS[1])
          tensors.release_all()
        end
        once() -- what a device keeps for good it keeps from the first call on
        local calls = tonumber(C.rg_grad_calls())
        local bytes = tonumber(C.rg_memory_of(tensors.DEVICE).live_bytes)
        once()
        assert.are.equal(calls, tonumber(C.rg_grad_calls()))
        assert.are.equal(0, tonumber(C.rg_grad_saved_bytes()))
        assert.are.equal(bytes, tonumber(C.rg_memory_of(tensors.DEVICE).live_bytes))
      end)
    end)
  end
end

-- -- Where a derivative has to be chosen ----------------------------------------------------------

-- Written by hand: what goes to each element of the inputs when 1, 2, 3 ... is the incoming
-- gradient. Sums over an axis split a maximum's share in equal parts among the largest; of two
-- elements that are alike each gets a half; at 0 the slopes of abs, sign and relu are 0.
local NAN = 0 / 0
local CHOSEN = {
  { 'prod', { { 2, 0, 3 } }, { 3 }, { { 0, 6, 0 } }, args = { axes = {} } },
  { 'prod', { { 0, 4, 0 } }, { 3 }, { { 0, 0, 0 } }, args = { axes = {} } },
  { 'prod', { { 2, 0, 3, 0, 5, 0, 2, 3, 4 } }, { 3, 3 }, { { 0, 6, 0, 0, 0, 0, 36, 24, 18 } },
    args = { axes = { 1 } } },
  { 'prod', { { 0, 0, 3, 2, 0, 5 } }, { 2, 3 }, { { 2, 0, 15, 0, 0, 9 } },
    args = { axes = { 0 } } },
  { 'max', { { 1, 3, 3, 2 } }, { 4 }, { { 0, 0.5, 0.5, 0 } }, args = { axes = {} } },
  { 'max', { { 5, 5, 5, 5, 1, 2, 2, 0 } }, { 2, 4 }, { { 0.25, 0.25, 0.25, 0.25, 0, 1, 1, 0 } },
    args = { axes = { 1 } } },
  { 'min', { { 2, 3, 2, 2, 3, 4 } }, { 2, 3 }, { { 0.5, 1, 3, 0.5, 1, 0 } },
    args = { axes = { 0 } } },
  { 'norm', { { 0, 0 } }, { 2 }, { { 0, 0 } }, args = { axes = {}, p = 2 } },
  { 'norm', { { -3, 0, 4, 0, 0, 0 } }, { 2, 3 }, { { -0.6, 0, 0.8, 0, 0, 0 } },
    args = { axes = { 1 }, p = 2 } },
  { 'norm', { { -4, 4, 1 } }, { 3 }, { { -0.5, 0.5, 0 } }, args = { axes = {}, p = math.huge } },
  { 'norm', { { -4, 0, 1 } }, { 3 }, { { -1, 0, 1 } }, args = { axes = {}, p = 1 } },
  { 'maximum', { { 1, 2, 3 }, { 2, 2, 2 } }, { 3 }, { { 0, 1, 3 }, { 1, 1, 0 } } },
  { 'minimum', { { 1, 2, 3 }, { 2, 2, 2 } }, { 3 }, { { 1, 1, 0 }, { 0, 1, 3 } } },
  { 'maximum', { { 1, 2, 3 } }, { 3 }, { { 0, 1, 3 } }, args = { value = 2 } },
  { 'minimum', { { 1, 2, 3 } }, { 3 }, { { 1, 1, 0 } }, args = { value = 2 } },
  { 'abs', { { -2, 0, 5 } }, { 3 }, { { -1, 0, 3 } } },
  { 'sign', { { -2, 0, 5 } }, { 3 }, { { 0, 0, 0 } } },
  { 'relu', { { -2, 0, 5 } }, { 3 }, { { 0, 0, 3 } } },
  { 'square', { { 0, -1 } }, { 2 }, { { 0, -4 } } },
  { 'mul', { { 0, 2 }, { 3, 0 } }, { 2 }, { { 3, 0 }, { 0, 4 } } },
  { 'pow', { { 0, 3 } }, { 2 }, { { 0, 12 } }, args = { value = 2 } },
  { 'pow', { { 0, 3 } }, { 2 }, { { 1, 2 } }, args = { value = 1 } },
  { 'pow', { { 0, 2 }, { 2, 3 } }, { 2 }, { { 0, 24 }, { 0, 16 * math.log(2) } } },
  { 'max', { { 1, NAN, 3 } }, { 3 }, { { NAN, NAN, NAN } }, args = { axes = {} } },
  { 'floor_divide', { { 7, -7, 3 }, { 2, 2, -2 } }, { 3 }, { { 0, 0, 0 }, { 0, 0, 0 } } },
  { 'trunc_divide', { { 7, -7, 3 }, { 2, 2, -2 } }, { 3 }, { { 0, 0, 0 }, { 0, 0, 0 } } },
  { 'remainder', { { 7, -7, 3 }, { 2, 2, -2 } }, { 3 }, { { 1, 2, 3 }, { -3, 8, 6 } } },
  { 'fmod', { { 7, -7, 3 }, { 2, 2, -2 } }, { 3 }, { { 1, 2, 3 }, { -3, 6, 3 } } },
  { 'remainder', { { 7, -7, 3 } }, { 3 }, { { 1, 2, 3 } }, args = { value = 4 } },
  { 'remainder', { { 2, -2, 3 } }, { 3 }, { { -3, 8, -6 } },
    args = { value = 7, reversed = true } },
  { 'fmod', { { 2, -2, 3 } }, { 3 }, { { -3, 6, -6 } }, args = { value = 7, reversed = true } },
  { 'threshold', { { 1, 2, 3 }, { 0, 2, 4 } }, { 3 }, { { 1, 0, 0 }, { 0, 0, 0 } } },
  { 'prelu', { { -2, 0, 5 }, { 0.5, 0.5, 0.5 } }, { 3 }, { { 0.5, 2, 3 }, { -2, 0, 0 } } },
  { 'elu', { { 0, 5 }, { 2, 2 } }, { 2 }, { { 1, 2 }, { 0, 0 } } },
  { 'threshold', { { 1, 2, 3 } }, { 3 }, { { 0, 0, 3 } }, args = { value = 2 } },
  { 'hardsigmoid', { { -3, 0, 3, 4 } }, { 4 }, { { 0, 2 / 6, 0, 0 } } },
  { 'hardswish', { { -4, 0, 4, -1 / 0 } }, { 4 }, { { 0, 1, 3, 0 } } },
  { 'relu6', { { -1, 0, 3, 6, 7 } }, { 5 }, { { 0, 0, 3, 0, 0 } } },
  { 'selu', { { 0 } }, { 1 }, { { 1.05070098735548 } } },
}

describe('a gradient where a derivative has to be chosen', function()
  after_each(function() tensors.release_all() end)

  for n, chosen in ipairs(CHOSEN) do
    local name, values, shape, wanted = unpack(chosen)
    it(('of %s is what is said of it (%d)'):format(name, n), function()
      for _, dtype in ipairs { 'f64', 'f32' } do
        for _, layout in ipairs(tensors.LAYOUTS) do
          if layout.fits(shape) and not layout.reads_only then
            local list, wide = {}, {}
            for i, each in ipairs(values) do
              list[i], wide[i] = reference.new(shape, dtype), reference.new(shape, dtype)
              for j, v in ipairs(each) do list[i][j], wide[i][j] = v, v end
            end
            local sample = { args = chosen.args }
            local y = output(cases[name], sample, wide)
            local dy = reference.new(y.shape, 'f64')
            for i = 1, reference.count(y.shape) do dy[i] = i end
            local found = gradients(cases[name], sample, list, dy, dtype, layout)
            for i, each in ipairs(wanted) do
              for j, want in ipairs(each) do
                local got = found[i] and found[i][j] or 0
                assert.is_true(math.abs(got - want) <= 1e-6 * math.max(1, math.abs(want))
                  or got ~= got and want ~= want,
                  ('%s, %s, input %d: %g at %d, wanted %g'):format(dtype, layout.name, i, got, j,
                    want))
              end
            end
            tensors.release_all()
          end
        end
      end
    end)
  end
end)
