-- SPDX-License-Identifier: MIT
-- double_spec: what is computed in f64 passes through no f32 on its way.  The inputs of op_spec are
-- exact in every type, so that a result would be the same; these have more digits.

require 'jit.opt'.start('-sink') -- see op_spec.lua

local ffi = require 'ffi'
local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local all = dofile(HERE .. 'cases.lua')
local cases, reference, tensors = all.cases, all.reference, all.tensors
local C = tensors.C

tensors.check(C.rg_device_open(tensors.DEVICE))
local generator = ffi.new 'rg_generator *[1]'
tensors.check(C.rg_generator_new(1, generator))

local FINE = 2 ^ -33 -- a share of the largest element; f32 has 2^-24 of each
local SAMPLES = 4

local function arguments(sample)
  local args = { seed = 5, offset = 0, generator = generator[0] }
  for k, v in pairs(sample.args or {}) do args[k] = v end
  C.rg_generator_set(generator[0], args.seed, args.offset)
  return args
end

-- Inputs of one sample, of which f64 has digits that f32 has not.
local function inputs_of(entry, sample)
  local list = {}
  for i, shape in ipairs(sample) do
    local dtype = entry.inputs and entry.inputs[i] or 'f64'
    list[i] = shape and reference.new(shape, dtype)
    for k = 1, shape and reference.count(shape) or 0 do
      local n = (k * 37 + i * 11) % 29 - 14
      list[i][k] = dtype == 'f64' and n / 4 + n * 2 ^ -30 or dtype == 'f32' and n / 4 or k % 2
    end
  end
  if entry.prepare then entry.prepare(list, sample) end
  return list
end

local function try(name, entry, sample)
  local list, t, args = inputs_of(entry, sample), {}, arguments(sample)
  for i, x in ipairs(list) do t[i] = x and tensors.LAYOUTS[1].make(x) end
  local out = ffi.new('rg_tensor *[?]', entry.n_out or 1)
  local status = entry.call(C, t, args, out)
  assert(status == 0, status ~= 0 and name .. ': ' .. tensors.failure(status))
  for i, want in ipairs(entry.reference(list, args)) do
    local got = tensors.read(entry.target and t[1] or tensors.hold(out[i - 1]))
    local largest = 0
    for k = 1, reference.count(want.shape) do
      if math.abs(want[k]) < math.huge then largest = math.max(largest, math.abs(want[k])) end
    end
    for k = 1, want.dtype == 'f64' and reference.count(want.shape) or 0 do
      local same = got[k] == want[k] or (got[k] ~= got[k] and want[k] ~= want[k])
      assert.is_true(same or math.abs(got[k] - want[k]) <= FINE * largest,
        ('%s, result %d, element %d: %.17g, wanted %.17g'):format(name, i, k, got[k], want[k]))
    end
  end
  tensors.release_all()
end

describe('f64', function()
  after_each(tensors.release_all)
  for name, entry in pairs(cases) do
    local takes = false -- of svd the reference asks what holds, see device_spec.lua
    for _, dtype in ipairs(entry.dtypes) do takes = takes or dtype == 'f64' end
    if takes and name ~= 'svd' then
      it('is f64 all the way in ' .. name, function()
        for i = 1, math.min(SAMPLES, #entry.samples) do
          local sample = entry.samples[i]
          if not (sample.except and sample.except.f64 or (sample.only or 'f64') ~= 'f64') then
            try(name, entry, sample)
          end
        end
      end)
    end
  end
end)
