-- SPDX-License-Identifier: MIT
--- What is said and done about memory whose bytes are told: what the system's files say, alarms at
--- a percentage, what grew between two marks, curves and who was alive at their peak.

local ridge = require 'ridge'
local ring = require 'ridge.ring'
local system = require 'ridge.memory.system'
local memory = ridge.memory

local MB = 2 ^ 20

local function plain(s) return (tostring(s):gsub('\226\128\175', ' '):gsub(' +\n', '\n')) end

-- Calls f with files of the system that say what is told; nil: that file is not there.
local function with_files(meminfo, statm, f)
  local was, paths = { system.meminfo, system.statm }, { os.tmpname(), os.tmpname() }
  for i, text in ipairs { meminfo or false, statm or false } do
    os.remove(paths[i])
    if text then
      local file = assert(io.open(paths[i], 'w'))
      file:write(text)
      file:close()
    end
  end
  system.meminfo, system.statm = paths[1], paths[2]
  local ok, err = pcall(f, paths[1], paths[2])
  system.meminfo, system.statm = was[1], was[2]
  for _, path in ipairs(paths) do os.remove(path) end
  if not ok then error(err, 0) end
end

local function info(total, available)
  return ('MemTotal:       %d kB\nMemFree: 3 kB\nMemAvailable:   %d kB\n'):format(total, available)
end

describe('memory of the system', function()
  it('is what its files say, in gigabytes, megabytes and percent', function()
    with_files(info(8 * MB, 2 * MB), '2048 256 7 1 0 1 0\n', function()
      assert.same({ total = 8 * 2 ^ 30, available = 2 * 2 ^ 30 }, (system.machine()))
      assert.equal(75, (system.percent()))
      local out = system.fields(0, 'no GPU')
      local page = system.process().vms / 2048
      assert.equal(4096, page)
      assert.same({ system_total_gb = 8, system_used_gb = 6, system_available_gb = 2,
        system_percent = 75, memory_usage_percent = 75, process_vms_mb = 8, process_rss_mb = 1,
        gpu_why = 'no GPU' }, out)
    end)
  end)

  it('says why it is not known', function()
    with_files(nil, nil, function(meminfo, statm)
      local out = system.fields(0)
      assert.equal(meminfo .. ': No such file or directory cannot be read', out.system_why)
      assert.equal(statm .. ': No such file or directory cannot be read', out.process_why)
      assert.is_nil(out.system_percent)
      assert.is_nil(out.process_rss_mb)
    end)
    for _, text in ipairs { 'MemTotal: 8 kB\n', 'MemAvailable: 8 kB\n', info(0, 0), '' } do
      with_files(text, 'none', function(meminfo, statm)
        local none, why = system.percent()
        assert.is_nil(none)
        assert.equal(meminfo .. ' does not say how much memory there is', why)
        assert.same({ nil, statm .. ' does not say what the process has' }, { system.process() })
      end)
    end
  end)
end)

describe("an alarm at a percentage of the machine's memory", function()
  local said
  local function alarm_at(percent, act)
    said = {}
    return memory.alarm(nil, { system_percent = percent, act = act,
      say = function(line) said[#said + 1] = line:gsub('freed %d+%.%d MB', 'freed F')
        :gsub('%d+%.%d MB of them', 'L of them') end })
  end
  after_each(function()
    for _, alarm in ipairs(memory.alarms()) do alarm:remove() end
  end)

  it('rings above it, and again when twentieths more are there', function()
    local used, seen = 40, {}
    with_files('', nil, function(meminfo)
      local function use(percent)
        used = percent
        local file = assert(io.open(meminfo, 'w'))
        file:write(info(100000, 100000 - 1000 * used))
        file:close()
      end
      use(40)
      local alarm = alarm_at(50, function(facts) seen[#seen + 1] = facts end)
      local function check(percent)
        use(percent)
        return alarm:check() ~= nil
      end
      assert.is_false(check(40))
      assert.is_false(check(50))
      assert.is_true(check(50.1))
      assert.equal(1, alarm.rang)
      assert.equal("memory: the machine has 50.1 % of the system's memory, above the alarm at 50 %;"
        .. " collected and trimmed, which freed F: 50.1 % of the system's memory stay, L of them "
        .. 'live', said[1])
      assert.is_false(check(52.6)) -- 50.1 * 1.05 = 52.605
      assert.is_true(check(52.61))
      assert.same({ 'cpu', 52.61, 52.61, 50 },
        { seen[2].device, seen[2].before, seen[2].after, seen[2].mark })
      assert.is_true(rawequal(alarm, seen[2].alarm))
      -- below the mark it forgets
      assert.is_false(check(50))
      assert.is_true(check(50.1))
      assert.equal(1, #said)
      assert.matches("^alarm at 50 %% of the system's memory: rang 3 times, freed %d+%.%d MB$",
        tostring(alarm))
      alarm.rang, alarm.freed = 1, 1.5 * MB
      alarm:remove()
      assert.equal("alarm at 50 % of the system's memory: rang 1 time, freed 1.5 MB; removed",
        tostring(alarm))
      assert.is_false(check(90))
    end)
  end)

  it('warns once of what it freed and once of what stays', function()
    with_files('', nil, function(meminfo)
      local list = { 60, 40 }
      -- what is there is less behind collecting
      local machine = system.machine
      system.machine = function()
        local used = table.remove(list, 1) or 40
        return { total = 100, available = 100 - used }
      end
      local ok, err = pcall(function()
        list = { 60 }
        local alarm = alarm_at(50)
        list = { 60, 40 }
        assert.is_truthy(alarm:check())
        list = { 60, 40 }
        assert.is_truthy(alarm:check())
        list = { 70, 65 }
        assert.is_truthy(alarm:check())
        list = { 80, 75 }
        assert.is_truthy(alarm:check())
        local full = said
        list = { 50 }
        alarm = alarm_at(50)
        list = { 60, 50 } -- what stays is not above the mark
        assert.is_truthy(alarm:check())
        assert.equal('freed F', said[1]:sub(-7))
        list = { 51 } -- so it is looked for again at once
        assert.is_truthy(alarm:check())
        said = full
      end)
      system.machine = machine
      assert(ok, err)
      assert.is_string(meminfo)
      assert.equal(2, #said)
      assert.equal("memory: the machine has 60.0 % of the system's memory, above the alarm at 50 %;"
        .. ' collected and trimmed, which freed F', said[1])
      assert.equal("memory: the machine has 70.0 % of the system's memory, above the alarm at 50 %;"
        .. " collected and trimmed, which freed F: 65.0 % of the system's memory stay, L of them "
        .. 'live', said[2])
    end)
  end)

  it('is one of three', function()
    local function refused(...)
      local ok, err = pcall(memory.alarm, ...)
      assert.is_false(ok)
      return err.message
    end
    local head = 'memory.alarm: one of megabytes, share and system_percent says where it rings, '
      .. 'got %d of them'
    assert.equal(head:format(0), refused(nil, {}))
    assert.equal(head:format(2), refused(100, { share = 0.5 }))
    assert.equal(head:format(2), refused(100, { system_percent = 50 }))
    assert.equal(head:format(3), refused(100, { share = 0.5, system_percent = 50 }))
    for _, bad in ipairs { 0, -1, 2 ^ 43 + 1024, 0 / 0, '3' } do
      assert.matches('^memory.alarm: megabytes are a finite number above 0, up to 2%^43, got ',
        refused(bad))
    end
    assert.equal(2 ^ 43, memory.alarm(2 ^ 43).mb)
    assert.equal('alarm at 8.5 MB on cpu: rang 0 times, freed 0.0 MB',
      tostring(memory.alarm(8.5)))
  end)
end)

describe('what grew', function()
  local Mark = getmetatable(memory.mark())
  local function mark(live, blocks, rows, number)
    local m = { device = 'dev', number = number or 0, live = live, blocks = blocks, by = {},
      counted = 0, counted_blocks = 0 }
    for i, row in ipairs(rows) do
      m.by[tostring(i)] = { line = row[1], module = row[2], live = row[3], blocks = row[4] }
      m.counted, m.counted_blocks = m.counted + row[3], m.counted_blocks + row[4]
    end
    return setmetatable(m, Mark)
  end

  it('is by line, the most first, with what no line had', function()
    local a = mark(1000, 20, { { 'a', nil, 100, 1 }, { 'b', nil, 200, 2 }, { 'c', 'net', 300, 3 } })
    local b = mark(2000, 31, { { 'a', nil, 150, 3 }, { 'b', nil, 200, 3 }, { 'c', 'net', 200, 1 },
      { 'd', 'net.x', 400, 7 } })
    local grown = a:grew(b)
    assert.equal(1000, grown.bytes)
    assert.same({ { line = '(not counted by line)', bytes = 650, blocks = 3 },
      { line = 'd', module = 'net.x', bytes = 400, blocks = 7 },
      { line = 'a', bytes = 50, blocks = 2 } }, { unpack(grown) })
    assert.equal('1000 B more on dev than before\nbytes  blocks  line                   module\n'
      .. '650 B       3  (not counted by line)\n400 B       7  d                      net.x\n'
      .. ' 50 B       2  a', (plain(grown):gsub(' +$', '')))
    grown.calls = 4
    assert.matches('^250 B a call of 4 more on dev than before\n', plain(grown))
    grown = b:grew(a)
    assert.same({ -1000, { { line = 'c', module = 'net', bytes = 100, blocks = 2 } } },
      { grown.bytes, { unpack(grown) } })
    assert.matches('^1000 B less on dev than before\n', plain(grown))
    assert.equal('as much on dev as before', plain(a:grew(a)))
    -- of equal ones by name
    grown = mark(0, 0, {}):grew(mark(2, 2, { { 'b', nil, 1, 1 }, { 'a', nil, 1, 1 } }))
    assert.same({ 'a', 'b' }, { grown[1].line, grown[2].line })
  end)

  it('is between marks of one device', function()
    local a = mark(0, 0, {})
    local ok, err = pcall(a.grew, a, mark(0, 0, {}, 1))
    assert.is_false(ok)
    assert.equal('mark:grew: a mark of dev is expected, got one of dev', err.message)
    ok, err = pcall(a.grew, a, { number = 0 })
    assert.is_false(ok)
    assert.matches('^mark:grew: a mark of dev is expected, got ', err.message)
  end)
end)

describe('a curve of memory', function()
  -- The timeline of events that are told, { kind, device, bytes, live, block, line, module, ns }.
  local function timeline(list, dropped)
    local was, heard = ring.open, {}
    ring.open = function(kinds, capacity)
      assert.equal('alloc free', kinds)
      assert.equal(2 ^ 18, capacity)
      return {
        hear = function(_, on) heard[#heard + 1] = on end,
        close = function() heard.closed = true end,
        facts = function() return { begin_ns = 1e9, dropped = dropped or 0 } end,
        each = function()
          local i = 0
          return function()
            i = i + 1
            local e = list[i]
            return e and { kind = e[1], device = e[2], bytes = e[3], live_bytes = e[4],
              block = e[5], line = e[6], module = e[7], begin_ns = 1e9 + (e[8] or 0) }
          end
        end }
    end
    local ok, t, back = pcall(memory.timeline, function(x) return x end, 7)
    ring.open = was
    assert(ok, t)
    assert.equal(7, back)
    assert.is_true(heard.closed)
    return t
  end

  local LIST = { { 'alloc', 'dev', 100, 1100, 1, 'a', nil, 5e8 },
    { 'alloc', 'cpu', 50, 50, 9, 'z', nil, 6e8 }, { 'alloc', 'dev', 300, 1400, 2, 'b', 'net', 1e9 },
    { 'free', 'dev', 100, 1300, 1, nil, nil, 1.5e9 }, { 'alloc', 'dev', 100, 1400, 1, 'b', 'net',
      2e9 }, { 'alloc', 'dev', 20, 1420, 4, 'c', nil, 2.5e9 }, { 'free', 'dev', 300, 1120, 2, nil,
      nil, 3e9 } }

  it('is that of the device with the highest peak, with who was alive there', function()
    local t = timeline(LIST)
    assert.same({ 'dev', 1420, 1120, 1000, 2.5, 7, 0 }, { t.device, t.peak, t.live, t.before,
      t.peak_s, t.events, t.lost })
    assert.same({ { line = '(there before)', bytes = 1000, blocks = 0 },
      { line = 'b', module = 'net', bytes = 400, blocks = 2 },
      { line = 'c', bytes = 20, blocks = 1 } }, t.at_peak)
    assert.same({ { at_s = 0, live = 1000, device = 'dev' }, { at_s = 0.5, live = 1100,
      device = 'dev' } }, { t.points[1], t.points[2] })
    assert.equal(7, #t.points)
    assert.equal('cpu', t.devices[2].device)
    -- a picture of it names that device, or what is asked for
    assert.equal('dev', t:plot().subtitle)
    assert.equal('two of them', t:plot({ device = 'two of them' }).subtitle)
    assert.same({ 50, 0, 0.6 }, { t.devices[2].peak, t.devices[2].before, t.devices[2].peak_s })
    assert.equal('dev: at most 1.4 KB live, 1000 B before, 1.1 KB behind; 5 blocks taken, '
      .. '2 given back\nalive at the peak:\n bytes        blocks  line            module\n'
      .. '1000 B  70 %          (there before)\n 400 B  28 %       2  b               net\n'
      .. '  20 B   1 %       1  c', (plain(t):gsub(' +$', '')))
  end)

  it('that is as high twice has its peak where it was so first', function()
    local t = timeline { { 'alloc', 'cpu', 100, 100, 1, 'a', nil, 1e9 },
      { 'free', 'cpu', 100, 0, 1, nil, nil, 2e9 }, { 'alloc', 'cpu', 100, 100, 2, 'b', nil, 3e9 } }
    assert.equal(1, t.peak_s)
    assert.same({ { line = 'a', bytes = 100, blocks = 1 } }, t.at_peak)
  end)

  it('that only falls has its peak before, and one of nothing is empty', function()
    local t = timeline { { 'free', 'cpu', 100, 900, 1 }, { 'free', 'cpu', 100, 800, 2 } }
    assert.same({ 1000, 1000, 800 }, { t.peak, t.before, t.live })
    assert.is_nil(t.peak_s)
    assert.same({ { line = '(there before)', bytes = 1000, blocks = 0 } }, t.at_peak)
    -- who is alive at the peak is not who was there once
    t = timeline { { 'alloc', 'cpu', 100, 100, 1, 'a' }, { 'free', 'cpu', 100, 0, 1 },
      { 'alloc', 'cpu', 200, 200, 2, 'b' } }
    assert.same({ { line = 'b', bytes = 200, blocks = 1 } }, t.at_peak)
    t = timeline({}, 3)
    assert.same({ 'cpu', 0, 0, 0, {} }, { t.device, t.peak, t.live, t.before, t.at_peak })
    assert.equal('cpu: at most 0 B live, 0 B before, 0 B behind; 0 blocks taken, 0 given back; 3 '
      .. 'later events not kept', plain(t))
    local ok, err = pcall(t.plot, t)
    assert.is_false(ok)
    assert.equal('memory.timeline:plot: no memory was taken or given back', err.message)
  end)

  it('lists twelve lines, and the rest together', function()
    local list, live = {}, 0
    for i = 1, 14 do
      live = live + 10
      list[i] = { 'alloc', 'cpu', 10, live, i, ('l%02d'):format(i) }
    end
    assert.matches('\n 10 B   7 %%       1  l12\n 20 B  14 %%          %(2 more%)$',
      (plain(timeline(list):text()):gsub(' +$', '')))
    list[13], list[14] = nil, nil
    assert.not_matches('more', plain(timeline(list):text()))
    -- equal ones by name; a line that is not known
    list = { { 'alloc', 'cpu', 10, 10, 1, 'b' }, { 'alloc', 'cpu', 10, 20, 2, 'a' },
      { 'alloc', 'cpu', 10, 30, 3 } }
    local t = timeline(list)
    assert.same({ '(no line)', 'a', 'b' }, { t.at_peak[1].line, t.at_peak[2].line,
      t.at_peak[3].line })
  end)
end)

describe('what is told of the CPU', function()
  it('has as cached what is reserved and not live', function()
    local x = ridge.ones(1000)
    local s = memory.stats()
    assert.is_true(s.live >= x.bytes)
    assert.equal(s.reserved - s.live, s.cached)
  end)

  it('has of each stage what it added to the one before', function()
    local s = memory.stages { model = function() return ridge.nn.Linear(256, 256) end,
      input = function() return ridge.randn(512, 256) end }
    for i = 2, 4 do assert.near(s[i].live - s[i - 1].live, s[i].delta, 1e-9) end
    assert.near((256 * 256 + 256) * 4 / 2 ^ 20, s.model, 0.01)
    assert.near(512 * 256 * 4 / 2 ^ 20, s.input, 0.01)
  end)
end)
