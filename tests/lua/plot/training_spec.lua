-- SPDX-License-Identifier: MIT
-- What the picture of a training says holds for its own numbers; the histories of its steps.
package.path = 'tests/lua/plot/?.lua;' .. package.path
local ridge = require 'ridge'
local recorder = require 'recorder'
local plot = require 'ridge.plot'
local stability = require 'ridge.plot.stability'
local folders = dofile 'tests/lua/store/folder.lua'
local nn, optim = ridge.nn, ridge.optim

local NAN, INF = 0 / 0, math.huge

-- Rows of curves: name to losses, one a second.
local function curves(lines)
  local rows = {}
  for name, losses in pairs(lines) do
    for i, loss in ipairs(losses) do
      rows[#rows + 1] = { point = name, seconds = i, step = i, loss = loss, state = 'ok' }
    end
  end
  return rows
end

describe('the headline of a training', function()
  local function finding(lines)
    return plot.draw('training', curves(lines), { y = 'loss', by = 'point', smooth = 1 }).finding
  end

  it('is true of the numbers it shows, without a margin', function()
    -- within 5 % of where the last one ends at 2 s, and there at 4 s
    assert.equal('Least in the end: 0.5 (a). First to be at 1 or less, where the last one ends, '
      .. 'and to stay there: a, after 4 s.', finding { a = { 2, 1.04, 1.01, 1, 0.5 },
      b = { 3, 2, 1.5, 1.2, 1 } })
    -- there for a moment is not there
    assert.matches('stay there: b, after 4 s', finding { a = { 2, 0.9, 2, 2, 0.5 },
      b = { 2, 2, 2, 1, 1 } })
    -- what is shown is not less than what is meant: 1.2346 as 1.23 would be reached by nobody
    assert.matches('be at 1%.235 or less, where the last one ends, and to stay there: b, after 3 s',
      finding { a = { 2, 2, 2, 2, 1 }, b = { 3, 2, 1.2346, 1.2346, 1.2346 } })
    assert.matches('be at %-2 or less, .*: a, after 2 s', finding { a = { -1, -2.5, -3 },
      b = { -1, -1.9, -2 } })
  end)

  it('is about the lines there are, where more have no place', function()
    local many = {}
    for i = 1, 12 do many['line ' .. i] = { 20, i + 1, i } end
    assert.equal('Least in the end: 1 (line 1). First to be at 10 or less, where the last one '
      .. 'shown ends, and to stay there: line 1, line 2 and 7 more, after 2 s.', finding(many))
    many['line 11'], many['line 12'] = nil, nil
    assert.matches('where the last one ends, ', finding(many))
  end)

  it('leaves out a curve without a number, and says when there is none', function()
    assert.equal('Least in the end: 1 (a).', finding { a = { 2, 1 }, b = { NAN, INF } })
    local ok, err = pcall(finding, { b = { NAN, NAN } })
    assert.is_false(ok)
    assert.matches('no curve has a number', err.message)
  end)
end)

describe('the histories of steps (F225)', function()
  local folder

  before_each(function() folder = folders.new() end)
  after_each(function() folders.remove(folder) end)

  local function watched(opts, bad)
    local x = ridge.randn(48, 3, { generator = ridge.generator(1) })
    local net = nn.Linear(3, 3, { seed = 1 })
    local batch = 0
    local t = ridge.Trainer(net, { optimizer = optim.SGD(net, { lr = 0.1 }), stability = opts,
      say = function() end, loss = function(o, labels)
        batch = batch + 1
        local loss = nn.cross_entropy(o, labels)
        return bad and batch % bad == 0 and loss * INF or loss
      end })
    t:fit(ridge.data.Loader({ x, x:argmax(2) }, { batch = 4, shuffle = false }), { epochs = 1 })
    return t.stability
  end

  it('are drawn as they were, and again from their own file', function()
    for name, opts in pairs {
      both = { clip = { max_norm = 0.3 }, guard = { kind = 'skip' }, loss_checking = false },
      guard = { guard = { kind = 'gradient_zeroing' }, loss_checking = false },
      clip = { clip = { kind = 'adaptive' } },
    } do
      local watch = watched(opts, name ~= 'clip' and 5 or nil)
      for _, theme in ipairs { 'light', 'dark' } do
        local path = ('%s/%s-%s.png'):format(folder, name, theme)
        watch:plot { theme = theme }:save(path, { scale = 1 })
        local again = plot.replot(path)
        assert.equal(watch:plot().finding, again.finding)
      end
      local clipped, bad, out = 0, 0, 0
      for _, row in ipairs(watch.history) do
        if (row.clipping_ratio or 0) > 0 then clipped = clipped + 1 end
        if row.nan + row.inf + row.overflow > 0 then bad = bad + 1 end
        if not row.stepped then out = out + 1 end
      end
      assert.same({ name ~= 'guard', name ~= 'clip' and 2 or 0, name == 'both' and 2 or 0 },
        { clipped > 0, bad, out })
      assert.equal(('12 steps: %d clipped, %d with elements that are not finite or too large, '
        .. '%d left out.'):format(clipped, bad, out), watch:plot().finding)
    end
    local ok, err = pcall(plot.draw, 'stability', {}, {})
    assert.is_false(ok)
    assert.matches('there are no rows', err.message)
  end)

  it('count from 0, in whole numbers, also where there is nothing to count', function()
    local rows = {}
    for i = 1, 9 do rows[i] = { step = i, nan = 0, inf = 0, overflow = 0 } end
    for _, most in ipairs { 0, 1, 7 } do
      rows[5].inf = most
      local labels = recorder.of(plot.draw('stability', rows, {})):all('text')
      local seen = 0
      for _, label in ipairs(labels) do
        local n = label.text:find '%d' and tonumber((label.text:gsub('\u{2212}', '-')))
        if n then seen = seen + 1 end
        assert.is_true(not n or n >= 0 and n % 1 == 0, label.text)
      end
      assert.is_true(seen >= 4)
    end
  end)

  it('are cut where a step has no number', function()
    local rows = {}
    for i, v in ipairs { 1, 2, NAN, 3, INF, 4, 5 } do rows[i] = { step = i, gradient_norm = v } end
    assert.same({ { { x = 1, y = 1 }, { x = 2, y = 2 } }, { { x = 4, y = 3 } },
      { { x = 6, y = 4 }, { x = 7, y = 5 } } }, stability.pieces(rows, 'gradient_norm'))
    plot.draw('stability', rows, {}):render { scale = 1 }:close()
  end)
end)
