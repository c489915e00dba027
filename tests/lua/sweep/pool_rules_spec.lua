-- SPDX-License-Identifier: MIT
-- When the parent of workers looks, asks, kills and starts, second by second: on a clock of its
-- own, with processes that end when the test says so.

local canonical = require 'ridge.store.canonical'
local clock = require 'ridge.store.clock'
local lock = require 'ridge.store.lock'
local pool = require 'ridge.sweep.pool'
local process = require 'ridge.sweep.child'
local queue = require 'ridge.store.queue'
local recovery = require 'ridge.store.recovery'

describe('the parent of workers', function()
  local old, now, said, waits, children, left, note, counted
  local orders, paddings, shown, asked

  -- What happens at which second; `lives` is how long each process lives, and how it ends.
  local function replace(module, name, value)
    old[#old + 1] = { module, name, module[name] }
    module[name] = value
  end

  local function told(word, ...)
    said[#said + 1] = ('%g: '):format(now) .. word:format(...)
  end

  before_each(function()
    old, now, said, waits, children, left, note, counted = {}, 0, {}, {}, {}, 0, nil, 0
    orders, paddings, shown, asked = {}, {}, nil, {}
    replace(clock, 'seconds', function() return now end)
    replace(process, 'oom_kills', function() return counted end)
    replace(process, 'wait', function(list, seconds)
      waits[#waits + 1] = seconds
      assert.is_true(#list > 0)
      now = math.floor((now + seconds) * 1000 + 0.5) / 1000
      for _, child in ipairs(list) do
        if not child.ended and now >= child.stop then child.ended = true end
      end
    end)
    replace(queue, 'claimable', function(st, id, shard)
      assert.equal('/nowhere/p.db 1 2/4', ('%s %s %s'):format(st.path, id, shard))
      return left
    end)
    replace(queue, 'recover', function(_, seen, spared)
      local words = {}
      for id, what in pairs(seen or {}) do
        words[#words + 1] = ('worker %d%s%s%s'):format(id, what.killed and ' killed' or '',
          what.oom and ' oom' or '', what.printed and ' ' .. what.printed or '')
      end
      for pid in pairs(spared or {}) do words[#words + 1] = 'spared ' .. pid end
      table.sort(words)
      told('recover %s', seen == nil and spared == nil and 'all' or table.concat(words, ', '))
    end)
    replace(queue, 'counts', function(st, id, shard)
      return ('%s %s %s'):format(st.path, id, shard)
    end)
    replace(queue, 'close', function(st, id)
      assert.equal('/nowhere/p.db 1', ('%s %s'):format(st.path, id))
      told 'closed'
    end)
    replace(recovery, 'note', function() return note or {} end)
    replace(lock, 'peek', function() return '' end)
    replace(lock, 'note', function(_, text, at)
      assert.equal(recovery.CRASH_AT, at)
      told('note %s', (text:gsub('\n', '')))
    end)
  end)
  after_each(function()
    for k = #old, 1, -1 do old[k][1][old[k][2]] = old[k][3] end
  end)

  -- Run with children that live `lives` seconds each: { seconds, status, signal, comes = false }.
  local function run(lives, opt)
    opt = opt or {}
    replace(process, 'spawn', function(words, env)
      assert.equal('the words', words)
      assert.is_true(#env.RIDGE_PADDING <= 4095)
      paddings[#env.RIDGE_PADDING] = true
      orders[#orders + 1] = canonical.decode(env.RIDGE_WORKER)
      local k = #children + 1
      assert.is_true(k <= 200, 'it starts processes without end')
      local life = lives[k] or lives[#lives]
      local child = { pid = 100 + k, stop = now + life[1], status = life[2] or 0,
        signal = life[3], comes = life.comes ~= false }
      function child:kill(signal)
        told('kill %d with %d', self.pid, signal)
        if signal == 9 or life.heeds then self.stop, self.signal = now, signal end
        if signal == 9 then self.status = nil end
      end
      function child.printed() return life.printed end
      function child:done() return self.ended, self.status, self.signal end
      function child:close() told('bury %d', self.pid) end
      children[k] = child
      left = math.max(0, left - (opt.takes or 1))
      told('start %d', child.pid)
      return child
    end)
    local db = {}
    function db.value(_, sql, ...)
      if sql:find('has failed', 1, true) then
        asked[#asked + 1] = table.concat({ ... }, ' ')
        return opt.failed and now >= opt.failed and 1 or 0
      end
      return sql:find('settled', 1, true) and 7 + #asked or 0
    end
    function db.row(_, _, pid)
      for _, child in ipairs(children) do
        if child.pid == pid and child.comes then return { id = pid - 100, lock = 'l' } end
      end
    end
    local stops = opt.stops
    local ok, result = pcall(pool.run, { store = { db = db, path = '/nowhere/p.db' },
      sweep = { id = 1, uuid = 'u', name = 's' }, settled = opt.settled,
      progress = { update = function(_, text) shown = text end },
      lab = { stopping = function()
        if opt.breaks and now >= opt.breaks then error('it breaks', 0) end
        return stops ~= nil and now >= stops
      end } }, { workers = opt.workers or 1, command = 'the words', shard = '2/4',
        isolate = opt.isolate or 'never', timeout = opt.timeout, deadline = opt.deadline,
        memory = opt.memory, shared = opt.shared, choices = opt.choices,
        more = function()
          told 'more'
          left, opt.passes = opt.passes and 1 or 0, nil
        end })
    told('%s', ok and tostring(result) or result.message or tostring(result))
    return table.concat(said, '\n')
  end

  it('looks once a second, and four times within a limit that is shorter than four', function()
    for _, case in ipairs { { nil, 1 }, { 2, 0.5 }, { 3.9, 0.975 }, { 4, 1 }, { 8, 1 } } do
      left, waits = 1, {}
      run({ { 2.5 } }, { timeout = case[1] })
      for _, seconds in ipairs(waits) do assert.equal(case[2], seconds) end
      assert.equal(math.ceil(2.5 / case[2]), #waits)
    end
  end)

  it('asks for one more pass when all has been done', function()
    left = 1
    assert.equal([[
0: start 101
1: recover worker 1
1: bury 101
1: recover all
1: more
1: start 102
2: recover worker 2
2: bury 102
2: recover all
2: more
2: closed
2: false]], run({ { 1 } }, { passes = 1 }))
  end)

  it('asks for no pass once the deadline has come, and for one just before', function()
    for deadline, more in pairs { [2] = false, [2.001] = true, [1.5] = false } do
      left, said, now = 1, {}, 0
      local text = run({ { 2 } }, { deadline = deadline })
      assert.equal(more, text:find('more', 1, true) ~= nil, deadline)
    end
  end)

  it('starts nobody once the deadline has come', function()
    for deadline, n in pairs { [0] = 0, [0.5] = 1, [1] = 1, [1.5] = 2 } do
      left, said, now, children = 2, {}, 0, {}
      run({ { 1 } }, { deadline = deadline })
      assert.equal(n, #children, deadline)
    end
  end)

  it('asks for no pass while something is left', function()
    left = 2
    assert.equal([[
0: start 101
1: recover worker 1
1: bury 101
1: start 102
2: recover worker 2
2: bury 102
2: recover all
2: more
2: closed
2: false]], run { { 1 } })
  end)

  it('tells each process its order, and gives it a stack of its own', function()
    left = 30
    run({ { 1 } }, { deadline = 30, memory = 5, shared = true, choices = 3, workers = 2 })
    assert.equal(30, #orders)
    for _, said_to in ipairs(orders) do
      assert.same({ parent = clock.pid(), sweep = '75', db = '/nowhere/p.db', deadline = 30,
        shard = '2/4', memory = 5, shared = true, workers = 2, choices = 3 }, said_to)
    end
    local n = 0
    for _ in pairs(paddings) do n = n + 1 end
    assert.is_true(n > 15) -- of 4096 lengths; the same one twice is seldom
    assert.equal('/nowhere/p.db 1 2/4', shown)
  end)

  it('gives each point a process always, never, or behind the first that failed', function()
    for way, ones in pairs { always = 'true true true', never = 'nil nil nil',
        auto = 'nil true true' } do
      left, said, now, orders, children, asked = 3, {}, 0, {}, {}, {}
      run({ { 1 } }, { isolate = way, failed = 1 })
      assert.equal(ones, ('%s %s %s'):format(orders[1].one, orders[2].one, orders[3].one))
      -- from where it is asked: the last look's; behind a failure nobody asks again
      assert.equal(way == 'auto' and '0 1, 7 1' or '', table.concat(asked, ', '))
    end
  end)

  it('ends those it started when it fails itself, and says why', function()
    left = 2
    assert.equal([[
0: start 101
0: start 102
2: kill 101 with 9
2: kill 102 with 9
2.2: recover spared 101, worker 2
2.2: bury 102
2.2: recover worker 1
2.2: bury 101
2.2: it breaks]], run({ { 1e9 } }, { workers = 2, breaks = 2 }))
    assert.equal(0.2, waits[#waits])
  end)

  it('starts no more than are wanted, and as many as there is work', function()
    for _, case in ipairs { { 3, 2, 2 }, { 2, 3, 3 }, { 5, 4, 4 }, { 1, 4, 4 } } do
      left, said, now, children = case[2], {}, 0, {}
      run({ { 1 } }, { workers = case[1] })
      assert.equal(case[3], #children)
      local first = 0
      for _, line in ipairs(said) do first = first + (line:find '^0: start' and 1 or 0) end
      assert.equal(math.min(case[1], case[2]), first)
    end
  end)

  it('interrupts after a second those that go on, and kills them after twenty', function()
    left = 2
    local text = run({ { 1e9 } }, { workers = 2, stops = 1 })
    local interrupts = text:match '([%d.]+): kill 101 with 2\n'
    local kills = text:match '([%d.]+): kill 101 with 9\n'
    assert.equal('2.2', interrupts)
    assert.equal('21.2', kills)
    assert.equal(2, select(2, text:gsub('with 2\n', '')))
    assert.equal(2, select(2, text:gsub('with 9\n', '')))
    assert.truthy(text:find('recover spared 101, worker 2\n', 1, true)
      and text:find('recover worker 1\n', 1, true), text) -- by the parent: no fault of theirs
    assert.truthy(text:find 'true$')
    assert.falsy(text:find 'more')
    for k = 2, #waits do assert.equal(0.2, waits[k]) end
  end)

  it('interrupts nobody that ends within a second', function()
    left = 1
    assert.equal('0: start 101\n2: recover worker 1\n2: bury 101\n2: closed\n2: true',
      run({ { 1.9 } }, { stops = 1 }))
  end)

  it('lets those end that heed an interrupt', function()
    left = 1
    local text = run({ { 1e9, heeds = true } }, { stops = 1 })
    assert.falsy(text:find 'with 9')
    assert.truthy(text:find '2.4: recover worker 1\n', text)
  end)

  it('kills a worker whose point has taken longer than it may', function()
    for since, killed in pairs { [0.5] = '3', [1] = '3.5', [0.999] = '3' } do
      left, said, now, children, note = 1, {}, 0, {}, { since = since, stage = 'measure' }
      local text = run({ { 8 } }, { timeout = 2 })
      assert.equal(killed, text:match '([%d.]+): note timeout 2\n', since)
      assert.equal(killed, text:match '([%d.]+): kill 101 with 9\n', since)
      assert.truthy(text:find('recover worker 1 killed\n', 1, true), text)
    end
  end)

  it('kills nobody who waits, has not begun, or never came to the sweep', function()
    for _, case in ipairs { { since = 0, stage = 'wait' }, { stage = 'measure' } } do
      left, said, now, children, note = 1, {}, 0, {}, case
      assert.falsy(run({ { 8 } }, { timeout = 2 }):find 'kill')
    end
    left, said, now, children, note = 1, {}, 0, {}, { since = 0, stage = 'measure' }
    assert.falsy(run({ { 8, comes = false } }, { timeout = 2 }):find 'kill')
  end)

  it('tells a death by the kernel, for want of memory, from another one', function()
    for n, words in pairs { [0] = 'worker 1 killed\n', [1] = 'worker 1 killed oom\n' } do
      left, said, now, children, counted = 1, {}, 0, {}, 0
      replace(process, 'wait', function(list, seconds)
        now, list[1].ended, counted = now + seconds, true, n
      end)
      assert.truthy(run({ { 1, nil, 9 } }):find(words, 1, true))
      old[#old][1][old[#old][2]] = old[#old][3] -- and that of this wait
    end
    left, said, now, children, counted = 1, {}, 0, {}, 0
    assert.truthy(run({ { 1, nil, 11, printed = 'last' } }):find('worker 1 last\n', 1, true))
  end)

  it('gives up after five that never came to the sweep, and not after four', function()
    left = 99
    local text = run { { 1, comes = false } }
    assert.equal(5, #children)
    assert.truthy(text:find('a worker of sweep s could not go on: it ended (status 0) before it '
      .. 'came to the sweep; does the recipe come to sw:run each time?', 1, true), text)
    assert.falsy(text:find 'closed')
    left, said, now, children = 99, {}, 0, {}
    local never = { 1, comes = false }
    text = run({ never, never, never, never, { 1 }, never, never, never, never, { 1 } },
      { takes = 11 })
    assert.falsy(text:find 'could not go on')
    left, said, now, children = 99, {}, 0, {}
    text = run { { 1, nil, 6, comes = false, printed = 'said' } }
    assert.truthy(text:find('it ended (signal 6) before it came to the sweep: said', 1, true), text)
  end)

  it('ends the run with what the first said that failed', function()
    for status, words in pairs { [1] = 'exit status 1', [3] = 'exit status 3' } do
      left, said, now, children = 9, {}, 0, {}
      local text = run { { 1, status } }
      assert.equal(1, #children)
      assert.truthy(text:find('a worker of sweep s could not go on: ' .. words, 1, true), text)
    end
    left, said, now, children = 9, {}, 0, {}
    assert.truthy(run({ { 1, 1, printed = 'its words \n' } })
      :find 'a worker of sweep s could not go on: its words$')
    left, said, now, children = 9, {}, 0, {}
    local text = run { { 1, 130 } } -- it saw Ctrl-C first
    assert.equal('0: start 101\n1: recover worker 1\n1: bury 101\n1: closed\n1: true', text)
  end)
end)
