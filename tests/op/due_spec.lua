-- SPDX-License-Identifier: MIT
-- due_spec: what RIDGE_TEST_EVERY leaves out, and that nothing is left out wholly.

local HERE = debug.getinfo(1, 'S').source:match('^@(.*/)') or './'
local due = dofile(HERE .. 'due.lua')

-- How often each sample of `types` times `layouts` of each of five operations is tried.
local function tried(every, types, layouts, samples)
  local is_due, counts, n = due.new(every), {}, 0
  for op = 1, 5 do
    for t = 1, types do
      for _ = 1, samples do
        for l = 1, layouts do
          if is_due(op .. 'type' .. t, op .. 'layout' .. l) then
            n = n + 1
            for _, kind in ipairs { 'op' .. op, op .. 'type' .. t, op .. 'layout' .. l } do
              counts[kind] = (counts[kind] or 0) + 1
            end
          end
        end
      end
    end
  end
  return counts, n
end

describe('every n-th sample', function()
  it('leaves out no operation, type or layout of one, however few are tried', function()
    for _, every in ipairs { 1, 2, 8, 16, 200, 1e9 } do
      local counts = tried(every, 6, 8, 4)
      for op = 1, 5 do
        for t = 1, 6 do assert.is_number(counts[op .. 'type' .. t], every) end
        for l = 1, 8 do assert.is_number(counts[op .. 'layout' .. l], every) end
      end
    end
    local _, n = tried(1e9, 6, 8, 4)
    assert.equal(5 * (8 + 5), n) -- with the first type comes the first layout; then 7 and 5 alone
  end)

  it('is all of them for 1, and about that share else, of each layout', function()
    local _, all = tried(1, 6, 8, 4)
    assert.equal(5 * 6 * 8 * 4, all)
    for _, every in ipairs { 2, 8 } do -- 8 layouts: a count would meet the same ones again
      local counts, n = tried(every, 1, 8, 400)
      local mean = 5 * 8 * 400 / every
      assert.is_true(n > 0.9 * mean and n < 1.1 * mean, n)
      for l = 1, 8 do
        local k, wanted = counts['1layout' .. l], 400 / every
        assert.is_true(k > wanted / 2 and k < wanted * 2, ('%d of layout %d'):format(k, l))
      end
    end
  end)

  it('is a whole number from 1; anything else is refused, not taken for less', function()
    local real = os.getenv
    finally(function() os.getenv = real end) -- luacheck: ignore 122
    local function set(value, least)
      os.getenv = function() return value end -- luacheck: ignore 122
      local ok, result = pcall(due.setting, 'RIDGE_X', 7, least)
      os.getenv = real -- luacheck: ignore 122
      return ok, result
    end
    for text, wanted in pairs { ['1'] = 1, ['24'] = 24, ['1e9'] = 1e9 } do
      assert.same({ true, wanted }, { set(text) })
    end
    assert.same({ true, 7 }, { set(nil) })
    assert.same({ true, 7 }, { set '' })
    assert.same({ true, 0 }, { set('0', 0) })
    for _, text in ipairs { '0', '-1', 'x', '1.5', 'nan', 'inf', '2 3' } do
      local ok, text_of = set(text)
      assert.is_false(ok, text)
      assert.equal(('RIDGE_X is %q; expected a whole number from 1'):format(text), text_of)
    end
  end)
end)
