-- SPDX-License-Identifier: MIT
-- The progress line, with a made-up clock and a made-up terminal.

local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local progress = require 'ridge.sweep.progress'

local function screen()
  local out = { text = '' }
  function out:write(...)
    self.text = self.text .. table.concat { ... }
  end
  function out.flush() end
  return out
end

local function many(n, state)
  local list = {}
  for i = 1, n do list[i] = state or 'ok' end
  return list
end

describe('progress', function()
  local out, now, p

  local function new(style, counts, width)
    out, now = screen(), 0
    p = progress.new('land', counts or { total = 100 }, { style = style, out = out, width = width,
      now = function() return now end })
  end

  it('redraws one line on a terminal, cut to its width', function()
    new('bar', nil, 40)
    now = 10
    p:add(many(10))
    assert.equal('\rland 10/100 · 1:30 left\27[K', out.text)
    now = 20
    p:at(('ü'):rep(100))
    local last = out.text:match '\r([^\r]*)\27%[K$'
    local characters = select(2, last:gsub('[%z\1-\127\194-\244]', ''))
    assert.equal(39, characters)
    assert.is_nil(out.text:find '\n')
    p:finish()
    assert.equal('\n', out.text:sub(-1))
  end)

  it('knows a rate by the passes that others count', function()
    local work = { done = 0, total = 40 }
    out, now = screen(), 0
    p = progress.new('land', { total = 20 }, { style = 'bar', out = out, width = 60,
      now = function() return now end,
      work = function() return { done = work.done, total = work.total } end })
    now, work.done = 10, 10
    p:add { 'pass', 'ok' }
    assert.matches(' 30 s left', out.text, 1, true) -- 30 of 40, one a second
    now, work.done = 10.5, 20
    p:add { 'ok' } -- asked a moment ago
    assert.matches(' 30 s left', out.text:match '\r([^\r]*)$', 1, true)
    now = 20
    p:add { 'ok' }
    assert.matches(' 20 s left', out.text:match '\r([^\r]*)$', 1, true)
  end)

  it('takes back what is to be measured again', function()
    new('bar', nil, 40)
    now = 10
    p:add(many(10))
    p:back(3)
    now = 20
    p:at 'x'
    assert.matches('land 7/100', out.text:match '\r([^\r]*)$', 1, true)
  end)

  it('knows the rate of the last half minute more than of the time before', function()
    new('bar', nil, 60)
    now = 10
    p:add(many(10)) -- one a second
    now = 40
    p:add(many(60)) -- two a second for 30 s: e to the -1 of what was known stays
    local rate = math.exp(-1) * 1 + (1 - math.exp(-1)) * 2
    assert.matches(('· %.0f s left'):format(30 / rate), out.text:match '[^\r]*$')
    assert.equal('18', ('%.0f'):format(30 / rate))
  end)

  it('counts what ended, not what is pending or under way', function()
    new('bar', { total = 10, pending = 3, running = 4, ok = 2, infeasible = 1 }, 60)
    p:finish ''
    assert.matches('land 3/10', out.text)
    assert.is_nil(out.text:find('failed', 1, true))
    p:update { total = 10, pending = 1, running = 4, ok = 4, error = 1 }
    now = 1
    p:at 'k=1'
    assert.matches('land 5/10.*1 failed %(error 1%)', out.text)
  end)

  it('takes the rate from what the database says, too, when that is more than before', function()
    new('bar', nil, 60)
    now = 10
    p:update { total = 40, pending = 30, ok = 10 } -- one a second
    assert.matches('land 10/40 · 30 s left', out.text:match '[^\r]*$', 1, true)
    now = 20
    p:update { total = 40, pending = 30, ok = 10 } -- says nothing of the rate
    assert.matches('land 10/40 · 30 s left', out.text:match '[^\r]*$', 1, true)
    now = 40
    p:update { total = 40, pending = 15, ok = 25 } -- 15 in 30 s: e to the -1 of one a second stays
    assert.equal('22', ('%.0f'):format(15 / (0.5 + 0.5 * math.exp(-1))))
    assert.matches('land 25/40 · 22 s left', out.text:match '[^\r]*$', 1, true)
  end)

  it('redraws at most ten times a second', function()
    new('bar', nil, 80)
    for i = 1, 100 do
      now = i / 100
      p:at('k=' .. i)
    end
    assert.is_true(select(2, out.text:gsub('\r', '')) <= 11)
  end)

  it('writes plain lines at each tenth, not more often than every 30 s', function()
    new 'plain'
    for i = 1, 100 do
      now = i * 10
      p:add(many(1))
    end
    assert.equal(10, select(2, out.text:gsub('\n', '')))
    assert.is_nil(out.text:find '\r')
    new 'plain'
    for i = 1, 100 do
      now = i / 10
      p:add(many(1))
    end
    assert.equal(1, select(2, out.text:gsub('\n', '')))
  end)

  it('counts failures by cause; infeasible points are none', function()
    new('plain', { total = 20, ok = 3, oom = 1, pending = 16 })
    now = 60
    p:add { 'ok', 'oom', 'error', 'infeasible' }
    assert.matches('land 8/20', out.text, 1, true)
    assert.matches('3 failed (error 1, oom 2)', out.text, 1, true)
  end)

  it('estimates from the last half minute', function()
    new('bar', nil, 80)
    for i = 1, 20 do -- slow: one in 10 s
      now = i * 10
      p:add(many(1))
    end
    for i = 1, 60 do -- then one a second
      now = 200 + i
      p:add(many(1))
    end
    local left = out.text:match '80/100 · (%d+) s left\27%[K$'
    assert.is_true(tonumber(left) >= 19 and tonumber(left) <= 24)
  end)

  it('shows the whole above the line now and then, and takes it away for a note', function()
    local looks = 0
    out, now = screen(), 0
    p = progress.new('land', { total = 100 }, { style = 'live', out = out, width = 40,
      now = function() return now end, view = function()
        looks = looks + 1
        return { 'row one', 'row two' }
      end })
    for i = 1, 50 do
      now = i / 10 -- five seconds
      p:add(many(1))
    end
    assert.equal(3, looks)
    -- two lines up and everything below is gone before it is drawn again
    assert.equal(2, select(2, out.text:gsub('\r\27%[2A\27%[J\r\27%[Jrow one\nrow two\n', '')))
    out.text = ''
    p:note 'a note'
    assert.equal('\r\27[2A\27[J\r\27[Ka note\n', out.text)
    p:finish()
    assert.equal(4, looks)
    assert.matches('row two\n\rland 50/100', out.text, 1, true)
  end)

  it('has a map of half the lines that the terminal has below it, where there is room', function()
    local live, terminal = require 'ridge.sweep.live', require 'ridge.plot.terminal'
    local new_progress, size, map, depth = progress.new, progress.size, live.map, terminal.depth
    local folder = folders.new()
    finally(function()
      progress.new, progress.size, live.map, terminal.depth = new_progress, size, map, depth
      folders.remove(folder)
    end)
    local view, asked, gives
    function progress.new(name, counts, options)
      view = options.view
      return new_progress(name, counts, { style = false })
    end
    local sw = require('ridge.sweep') 'tiny' { space = { k = { 1 } },
      measure = function(_, _, m)
        -- while it runs: lines of the terminal, those asked for, those given, those shown
        for _, case in ipairs { { 15, nil, 0, 0 }, { 16, 4, 13, 13 }, { 16, 4, 14, 0 },
            { 24, 8, 21, 21 }, { 25, 8, 3, 3 }, { 26, 9, 24, 0 }, { 50, 21, 30, 30 } } do
          asked, gives = nil, case[3]
          function progress.size() return { lines = case[1], columns = 77 } end
          assert.equal(case[4], #view(), case[1])
          assert.same(case[2] and { columns = 77, lines = case[2], depth = '256' } or nil, asked)
        end
        function terminal.depth() return 'none' end
        asked = nil
        assert.same({ {}, nil }, { view(), asked })
        function terminal.depth() return '256' end
        function live.map() error 'nothing to draw' end
        assert.same({}, view())
        m:metric('done', 1)
      end }
    function terminal.depth() return '256' end
    function live.map(_, _, opts)
      asked = opts
      return many(gives, 'a row')
    end
    sw:run { db = folder .. '/t.db', lab = cheap_lab.new(), calibrate = false }
    assert.equal(1, sw:results { db = folder .. '/t.db' }[1].done)
  end)

  it('is silent when off', function()
    new(false)
    now = 100
    p:add(many(50))
    p:note 'x'
    p:finish()
    assert.equal('', out.text)
  end)

  it('says at its end how long it took, from its own beginning', function()
    out, now = screen(), 1000
    p = progress.new('land', { total = 2 }, { style = 'bar', out = out, width = 60,
      now = function() return now end })
    now = 1075
    p:finish()
    assert.matches('land 0/2 · 1:15 in all', out.text, 1, true)
  end)

  it('writes durations as people do', function()
    assert.equal('0 s', progress.duration(0.2))
    assert.equal('59 s', progress.duration(59.4))
    assert.equal('1:00', progress.duration(59.6))
    assert.equal('12:05', progress.duration(725))
    assert.equal('2:00:01', progress.duration(7201))
  end)
end)
