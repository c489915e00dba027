-- SPDX-License-Identifier: MIT
--- Measured points, verdicts, calibrations and prices as they show where a field is missing, none,
--- very large or very small, at three widths: whole texts as approved.

jit.off(true, true) -- compiled loops that copy go wrong in LuaJIT of Debian 12 (ridge.options)

local approved = dofile 'tests/lua/approved.lua'
local flags = require 'ridge.measure.flags'
local inspect = require 'ridge.repl.inspect'
local points = require 'ridge.measure.shown'
local told = require 'ridge.measure.told'
local verdicts = require 'ridge.sweep.verdicts'

local function copy(x)
  if type(x) ~= 'table' then return x end
  local out = {}
  for k, v in pairs(x) do out[k] = copy(v) end
  return out
end

local function sorted(x)
  local names = {}
  for name in pairs(x) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- Each change of each field: gone, 0, a thousandfold, a millionth, one more.
local CHANGES = { { 'gone', function() return nil end }, { '0', function() return 0 end },
  { 'x 1000', function(v) return v * 1000 end }, { 'x 1e-6', function(v) return v * 1e-6 end },
  { '+ 1', function(v) return v + 1 end } }

local function variants(fields, show, needed)
  local out = {}
  local function put(what, x)
    out[#out + 1] = '== ' .. what
    for _, width in ipairs { 60, 80, 130 } do
      local ok, text = pcall(function() return inspect.value(show(copy(x)), { width = width }) end)
      out[#out + 1] = ok and text or 'raises ' .. tostring(text)
    end
    local ok, text = pcall(function() return inspect.value({ show(copy(x)) }, { width = 100 }) end)
    out[#out + 1] = ok and text or 'raises ' .. tostring(text)
  end
  put('as it is', fields)
  for _, name in ipairs(sorted(fields)) do
    for _, change in ipairs(CHANGES) do
      local numeric = type(fields[name]) == 'number'
      if change[1] == 'gone' and not needed[name] or change[1] ~= 'gone' and numeric then
        local x = copy(fields)
        x[name] = change[2](x[name])
        put(name .. ' ' .. change[1], x)
      end
    end
  end
  return out, put
end

-- A name for each bit; the list of the library, in its order.
local function some(...)
  local list = {}
  for _, name in ipairs { ... } do
    assert(flags.describe(name), name)
    list[#list + 1] = name
  end
  return list
end

describe('as it was approved', function()
  it('a point shows', function()
    local samples = {}
    for i = 1, 60 do samples[i] = 1000 + i * 37 % 100 end
    local point = { med = 1234.5, ci_lo = 1200, ci_hi = 1300, ci_level = 0.95, grade = 'B', n = 60,
      inner = 8, cache = 'warm', procs = 3, samples = samples, first_ns = 54321, flags = {},
      work = { flops = 2e6, bytes = 3e5 }, roof = 0.5, promises = 'one promise',
      cold = { med = 4321, ci_lo = 4000, ci_hi = 4500, grade = 'C', flags = {}, n = 9, inner = 1,
        ci_level = 0.95 } }
    local out, put = variants(point, points.point, { med = true, ci_lo = true, ci_hi = true,
      ci_level = true, grade = true, n = true, inner = true, flags = true })
    for _, list in ipairs { some 'SWITCHED', some('SWITCHED', 'IMPRECISE'),
        some('WIDE', 'FOREIGN', 'IMPRECISE'),
        some('DRIFT', 'IMPRECISE', 'WIDE', 'STEAL', 'FREQ') } do
      local x = copy(point)
      x.flags = list
      put('flags ' .. table.concat(list, ' '), x)
    end
    for _, name in ipairs { 'flops', 'bytes' } do
      local x = copy(point)
      x.work[name] = 0
      put('work.' .. name .. ' 0', x)
    end
    local x = copy(point)
    x.samples = { 5, 5, 5 }
    put('equal samples', x)
    x.samples, x.inner = { 5, 6 }, 1
    put('two samples of one call', x)
    approved.check('show/variants-point', table.concat(out, '\n'))
  end)

  it('a list of verdicts shows', function()
    local one = { verdict = 'slower', ratio = 1.25, ci_lo = 1.2, ci_hi = 1.3, phase = 'fwd',
      cache = 'warm', match = { width = 64, kind = 'a' }, a_ns = 1000, b_ns = 1250,
      reason = 'a reason' }
    local out, put = variants(one, function(x) return verdicts.verdicts { x } end,
      { verdict = true })
    local other = { verdict = 'faster', ratio = 0.5, phase = 'fwd', pair = { width = 8 },
      aa_fail = true, cache = 'cold' }
    local list = {}
    for i = 1, 14 do
      list[i] = copy(i % 2 == 0 and one or other)
      list[i].ratio = i % 3 == 0 and 1 / i or i
      list[i].verdict = ({ 'open', 'slower', 'equal', 'faster' })[i % 4 + 1]
    end
    list[5].ratio, list[6].ratio = 0 / 0, -1
    for _, n in ipairs { 0, 1, 2, 7, 8, 9, 10, 11, 12, 14 } do
      local x = { unpack(list, 1, n) }
      out[#out + 1] = '== ' .. n
      for _, width in ipairs { 60, 100 } do
        out[#out + 1] = inspect.value(verdicts.verdicts(copy(x)), { width = width })
      end
      out[#out + 1] = inspect.value({ verdicts.verdicts(copy(x)) }, { width = 100 })
    end
    put('another', other)
    approved.check('show/variants-verdicts', table.concat(out, '\n'))
  end)

  it('a calibration shows', function()
    local one = { name = 'fma.f32', threads = 1, unit = 'flop/s', value = 9e10, ci_lo = 8.9e10,
      ci_hi = 9.1e10 }
    local out = variants(one, function(x) return told.calibration { x } end, { name = true,
      threads = true, value = true })
    local list = {}
    for i, row in ipairs { { 'clock', 'Hz', 3.1e9 }, { 'noise.aa', '1', 0.012 },
        { 'bw.dram', 'B/s', 2.1e10 }, { 'other', 'J', 12345.678 }, { 'call', 'ns', 43.2 },
        { 'fma.f64', 'flop/s', 4e10 }, { 'fma.f32', 'flop/s', 8e10 }, { 'bw.l2', 'B/s', 6e10 },
        { 'bw.l1', 'B/s', 1e11 }, { 'bw.llc', 'B/s', 3e10 }, { 'fma.f32', 'flop/s', 16e10 } } do
      list[i] = { name = row[1], unit = row[2], value = row[3], threads = i == 11 and 2 or 1,
        ci_lo = i % 2 == 0 and row[3] * 0.9 or nil, ci_hi = i % 2 == 0 and row[3] * 1.1 or nil }
    end
    for _, n in ipairs { 0, 1, 2, 7, 8, 9, 10, 11 } do
      out[#out + 1] = '== ' .. n
      out[#out + 1] = inspect.value(told.calibration { unpack(list, 1, n) }, { width = 80 })
      out[#out + 1] = inspect.value({ told.calibration { unpack(list, 1, n) } }, { width = 100 })
    end
    approved.check('show/variants-calibration', table.concat(out, '\n'))
  end)
end)
