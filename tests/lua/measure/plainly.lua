-- SPDX-License-Identifier: MIT
--- What specs share that write a rule out plainly and compare what ridge says over random inputs.

local assert = require 'luassert'

local quantile = dofile('tests/lua/measure/ranks.lua').quantile
local from_one = dofile 'tests/lua/seeded.lua'

-- Whole numbers from 0 to n - 1.
local function seeded(seed)
  local draw = from_one(seed)
  return function(n) return draw(n) - 1 end
end

local function median(list) return quantile(list, 0.5) end

-- Equal but for the last digits; nan is nan, nil is nil.
local function same(want, got, what)
  if type(want) == 'number' and type(got) == 'number' then
    if want ~= want or got ~= got then return assert.is_true(want ~= want and got ~= got, what) end
    assert.is_true(want == got or math.abs(want - got) <= 1e-9 * math.max(1e-3, math.abs(want)),
      ('%s: want %.15g, got %.15g'):format(what, want, got))
  elseif type(want) == 'table' and type(got) == 'table' then
    for key, value in pairs(want) do same(value, got[key], what .. '.' .. tostring(key)) end
    for key in pairs(got) do assert.is_true(want[key] ~= nil, what .. '.' .. tostring(key)) end
  else
    assert.equal(want, got, what)
  end
end

local function column(list, name)
  local out = {}
  for _, each in ipairs(list) do out[#out + 1] = each[name] end
  return out
end

return { seeded = seeded, median = median, same = same, column = column }
