-- SPDX-License-Identifier: MIT
-- What a machine can promise: of made-up records whose parts are known, and once for real.

local calibrate = require 'ridge.measure.calibrate'
local program = require 'tests.lua.repl.program'
local random = require 'ridge.measure.random'
local replaced = require 'tests.lua.measure.replaced'
local trust = require 'ridge.measure.trust'
local variation = require 'ridge.measure.variation'

-- sds of the logarithm: between processes, layouts, windows; slow(at_s): is the machine slow?
local function record_of(n, sds, slow)
  local r, record = random.new(41), { threads = 2, passes = {}, windows = {} }
  for i = 1, n do
    local pass = { at_s = i }
    for _, kind in ipairs(trust.KINDS) do
      local own, copies = sds.process * r:normal(), {}
      for copy = 1, 2 do
        local layout, times = sds.layout * r:normal(), {}
        for w = 1, 3 do times[w] = 100 * math.exp(own + layout + sds.window * r:normal()) end
        copies[copy] = times
      end
      pass[kind] = copies
    end
    record.passes[i] = pass
  end
  for i = 1, 1000 do
    local at = i * 0.01
    record.windows[i] = { at_s = at, ns = (slow and slow(at) and 37 or 22)
      * math.exp(0.01 * r:normal()) }
  end
  return record
end

local function near(want, got, share)
  assert.is_true(math.abs(got / want - 1) < share, ('%g, not %g'):format(got, want))
end

describe('what a machine can promise', function()
  it('is taken apart: processes, layouts, windows', function()
    local s = trust.summary(record_of(300, { process = 0.1, layout = 0.03, window = 0.01 }))
    for _, k in ipairs(s.kinds) do
      near(math.sqrt(0.1 ^ 2 + 0.03 ^ 2), k.sd, 0.15)
      near(0.03, k.layout, 0.25)
      near(0.01, k.within, 0.15)
      -- 1.96 standard deviations, each side
      near(1.96 * 0.104, k.up, 0.3)
      near(1.96 * 0.104, k.down, 0.3)
      assert.is_true(k.paired[9] < 0.6 * k.alone[9], 'side by side the processes cancel')
      assert.is_true(k.alone[12] < k.alone[5])
    end
    assert.equal(1, s.states.n)
    assert.equal(300, s.n)
  end)

  it('tells states and how long they last', function()
    -- 0.3 s fast, 0.1 s slow
    local s = trust.summary(record_of(12, { process = 0, layout = 0, window = 0.01 },
      function(at) return (at + 1e-6) % 0.4 >= 0.3 end))
    assert.equal(2, s.states.n)
    near(37 / 22, s.states.factor, 0.02)
    near(0.25, s.states.share_slow, 0.05)
    near(0.3, s.states.fast_s[1], 0.05)
    near(0.1, s.states.slow_s[1], 0.11)
    assert.matches('x1%.68 and holds 25 %%', trust.text(s))
  end)

  it('is a page of what was found, kind by kind', function()
    local kinds = {}
    for i, kind in ipairs { 'small', 'linear', 'softmax', 'streaming' } do
      local x = math.log(1 + i / 100)
      kinds[i] = { kind = kind, sd = x, layout = math.log(1.05), within = math.log(3), up = x,
        down = math.log(1.25), alone = { [5] = 3 * x, [9] = 2 * x, [12] = x },
        paired = { [5] = math.log(1.5), [9] = x, [12] = 0 } }
    end
    assert.equal([[
What this machine can promise: 12 processes in 30 s, 1 thread.

states: two; the slow one is x1.50 and holds 20 % of the time
  a fast one lasts 2 s (median), one in twenty 3.5 s or more
  a slow one lasts 0.5 s (median), one in twenty 0.75 s or more

standard deviation of                  processes   layouts   windows   95 % of processes
x + 1, 64 floats (L1)                      1.0 %     5.0 %        x3   -20.00 % .. +1.00 %
linear, 16 x 256 x 256 (L2)                2.0 %     5.0 %        x3   -20.00 % .. +2.00 %
softmax, 60 x 1000                         3.0 %     5.0 %        x3   -20.00 % .. +3.00 %
x + 1, 4 M floats (memory)                 4.0 %     5.0 %        x3   -20.00 % .. +4.00 %

differences that can be told apart, with 5 / 9 / 12 passes          side by side in each pass
x + 1, 64 floats (L1)                  3.0 % / 2.0 % / 1.0 %      50.0 % / 1.0 % / 0.0 %
linear, 16 x 256 x 256 (L2)            6.1 % / 4.0 % / 2.0 %      50.0 % / 2.0 % / 0.0 %
softmax, 60 x 1000                     9.3 % / 6.1 % / 3.0 %      50.0 % / 3.0 % / 0.0 %
x + 1, 4 M floats (memory)             12.5 % / 8.2 % / 4.0 %     50.0 % / 4.0 % / 0.0 %

An interval of one process (quick, %bench) is widened by what processes
of its kind of work differ by; where the kind is not known, as of a function: -3.85 % .. +5.00 %.
Beside it stand 4.1 %, assumed, for what changes within ten minutes: --minutes 10
sees that.]],
      trust.text { n = 12, seconds = 30, threads = 1, kinds = kinds, up = math.log(1.04),
        down = math.log(1.05), states = { n = 2, factor = 1.5, share_slow = 0.2,
          fast_s = { 2, 3.5 }, slow_s = { 0.5, 0.75 } } })
  end)

  it('says of a minute or more what intervals of one process hold of its pieces', function()
    local record = record_of(60, { process = 0.01, layout = 0.01, window = 0.01 })
    for i, pass in ipairs(record.passes) do   -- two states of 30 s and of 60, a factor of 1.5
      pass.at_s = 3 * i
      for _, copy in ipairs(i > 10 and i <= 30 and pass.l2 or {}) do
        for w = 1, 3 do copy[w] = 1.5 * copy[w] end
      end
    end
    record.seconds = 183
    local s = trust.summary(record)
    local known = variation.of { trust = trust.known(s) }
    local l2, softmax = known.kinds.l2, known.kinds.softmax
    -- of the median of all, which lies in the fast state, no run is lower by more than 4 %
    assert.is_true(s.kinds[4].down < 0.04, s.kinds[4].down)
    assert.is_true(l2.down > math.log(1.5) and l2.up > math.log(1.5) and l2.up < 0.6, l2.up)
    assert.is_true(softmax.up < 0.08 and softmax.down < 0.08)
    assert.same({ l2.up, l2.down }, { known.up, known.down })
    assert.matches('what processes and times\nof its kind', trust.text(s))
  end)

  it('is an interval that no end leaves: factors, never below 0', function()
    local text = trust.text(trust.summary(record_of(12, { process = 2, layout = 1, window = 1 })))
    assert.is_nil(text:find('%-%d%d%d'))
    assert.matches('as of a function: x', text)
    for lo, hi in text:gmatch 'x([%d.e+-]+) %.%. x([%d.e+-]+)' do
      assert.is_true(tonumber(lo) > 0 and tonumber(lo) <= 1 and tonumber(hi) >= 1)
    end
  end)

  it('comes back from its rows, and is what intervals of one process hold', function()
    local s = trust.summary(record_of(40, { process = 0.1, layout = 0.03, window = 0.01 }))
    local c = calibrate.calibration(trust.rows(s), 2)
    assert.same({ s.up, s.down, 40, s.seconds },
      { c.trust.up, c.trust.down, c.trust.processes, c.trust.seconds })
    local between = variation.of(c)
    local drift = variation.unseen(s.seconds)
    assert.same({ math.sqrt(s.up ^ 2 + drift ^ 2), math.sqrt(s.down ^ 2 + drift ^ 2), 'trust' },
      { between.up, between.down, between.how })
    assert.equal('prior', variation.of(nil).how)
    assert.equal('prior', variation.of({ ceilings = {} }).how)
    assert.equal('none', variation.of(nil, {}).how)
    assert.is_nil(calibrate.calibration(trust.rows(s), 1))
  end)

  it('is of the newest trust alone, whatever an older one left under other names', function()
    local long = record_of(60, { process = 0.1, layout = 0.03, window = 0.01 })
    for i, pass in ipairs(long.passes) do pass.at_s = 3 * i end
    local list = {}
    local short = record_of(12, { process = 0.1, layout = 0, window = 0.01 })
    for at, record in ipairs { long, short } do
      for _, row in ipairs(trust.rows(trust.summary(record))) do
        row.at, list[row.name] = 1000 * at, row
      end
    end
    local rows = {}
    for _, row in pairs(list) do rows[#rows + 1] = row end   -- the newest of each name
    assert.equal(1000, list['trust.minutes.small'].at)
    for sign = -1, 1, 2 do   -- the older ones first, and last
      table.sort(rows, function(x, y) return sign * x.at < sign * y.at end)
      local known = calibrate.calibration(rows, 2).trust
      assert.same({ 12, list['trust.up'].value }, { known.seconds, known.up })
      assert.same({}, { known.minutes, known['minutes.small'], known['near_up.small'] })
    end
  end)

  it('is that of the kind of work: a busy memory widens nothing that stays in a cache', function()
    local record = record_of(40, { process = 0.02, layout = 0.01, window = 0.01 })
    for _, pass in ipairs(record.passes) do
      for _, copy in ipairs(pass.streaming) do
        for w = 1, 3 do copy[w] = copy[w] ^ (1 + 0.2 * (pass.at_s % 3)) end
      end
    end
    local between = variation.of(calibrate.calibration(trust.rows(trust.summary(record)), 2))
    local function of(bytes, flops)
      return variation.of_call(between, { bytes = bytes, flops = flops }).up
    end
    assert.is_true(of(512, 64) < 0.1)
    assert.is_true(of(295e3, 2e6) < 0.1)
    assert.is_true(of(480e3, 3e5) < 0.1)
    assert.is_true(of(32e6, 4e6) > 0.5)
    assert.equal(between.up, of(32e6, 4e6))
    assert.equal(between.up, variation.of_call(between, {}).up)
    assert.equal('prior', variation.of_call(variation.PRIOR, { bytes = 512 }).how)
    -- the kinds are what ridge trust measures under these names
    for i, cost in ipairs { { bytes = 512, flops = 64 }, { bytes = 295e3, flops = 2.1e6 },
                            { bytes = 480e3, flops = 3e5 }, { bytes = 2 ^ 18, flops = 2 ^ 15 },
                            { bytes = 2 ^ 22, flops = 2 ^ 19 }, { bytes = 32e6, flops = 4e6 } } do
      assert.equal(trust.KINDS[i], variation.kind_of(cost))
    end
  end)

  it('reaches the interval of a plan by what the plan counts', function()
    local ridge = require 'ridge'
    local measure = require 'ridge.measure'
    local x, rows = ridge.randn(64), {}
    local function add(name, value)
      rows[#rows + 1] = { name = 'trust.' .. name, threads = 1, unit = '1', value = value }
    end
    add('up', 2)
    add('down', 2)
    add('up.small', 0.5)
    add('down.small', 0.5)
    local setting = { calibration = calibrate.calibration(rows, 1) }
    setting.calibration.reference = nil
    local protocol = { level = 'quick', quiet_ns = 0 }
    local r = measure.point(ridge.capture(function() return x + 1 end), protocol, setting)
    assert.matches('+trust.small', r.ci_how, 1, true)
    assert.is_true(r.ci_hi / r.med >= math.exp(0.5) - 1e-6)
    local own = measure.point(function() return x + 1 end, protocol, setting)
    assert.matches('+trust$', own.ci_how)
    assert.is_true(own.ci_hi / own.med >= math.exp(2) - 1e-6)
  end)

  it('covers the median of all processes by the interval of one', function()
    local r, sd, hits = random.new(7), 0.12, 0
    local up = 1.96 * sd
    for _ = 1, 2000 do
      local med = 100 * math.exp(sd * r:normal())
      local lo, hi = variation.widen(med, med * 0.99, med * 1.01, { up = up, down = up })
      if lo <= 100 and 100 <= hi then hits = hits + 1 end
    end
    assert.is_true(hits / 2000 >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 2000))
    local lo, hi = variation.widen(100, 50, 100, { up = 3, down = 0.1 })
    assert.is_true(lo > 0 and lo < 100 * math.exp(-3) and math.abs(hi - 100 * math.exp(0.1)) < 1e-9)
  end)

  it('needs processes enough', function()
    assert.error_matches(function()
      trust.summary(record_of(4, { process = 0, layout = 0, window = 0 }))
    end, '4 processes are too few')
  end)

  it('is measured for as long as asked, and each part has its second', function()
    local process, native = require 'ridge.process', require 'ridge.measure.native'
    local services, was, asked = native.services(), process.spawn, {}
    process.spawn = function(how)
      assert.equal('ridge.measure.trust', how.module)
      return { send = function(_, text) asked[#asked + 1] = text end, close = function() end,
        receive = function() return '{ small = { { 1 } } }' end }
    end
    local began = services.now()
    local ok, record = pcall(trust.measure, { minutes = 0.1 / 60, least = 3, window_ns = 1e4 })
    local took = (services.now() - began) / 1e9
    process.spawn = was
    assert(ok, record)
    assert.is_true(took >= 0.1)
    assert.is_true(#record.passes >= 3)
    assert.equal(#asked, #record.passes)
    assert.matches('^10000 %d+$', asked[1])
    for _, list in ipairs { record.passes, record.windows } do
      local last = 0
      for _, part in ipairs(list) do
        assert.is_true(part.at_s >= last and part.at_s < took)
        last = part.at_s
      end
    end
    assert.is_true(record.windows[#record.windows].at_s > record.passes[#record.passes].at_s)
  end)

  it('is said where it cannot be kept: a disk that became full meanwhile', function()
    local folder, printed = program.folder(), {}
    replaced.replace(trust, { measure = function()
      return record_of(12, { process = 0.1, layout = 0, window = 0.01 })
    end })
    replaced.replace(require 'ridge.sweep.calibrated', { keep = function()
      error('the disk is full', 0)
    end })
    replaced.replace(require 'ridge.plain', { print = function(text)
      printed[#printed + 1] = text
    end })
    local ok, why = pcall(require('ridge.cli.trust').main, { '--db', folder .. '/t.db' })
    replaced.restore()
    program.remove(folder)
    assert.same({ false, 'the disk is full' }, { ok, why })
    assert.matches('What this machine can promise: 12 processes', table.concat(printed))
  end)

  it('is measured in fresh processes, printed, drawn', function()
    local folder = program.folder()
    local db, path = folder .. '/t.db', folder .. '/t.png'
    local status, out = program.run { 'trust', '--smoke', '--threads', '1', '--db', db, '-o', path }
    assert.equal(0, status)
    assert.matches('5 processes in', out)
    assert.matches('softmax, 60 x 1000', out)
    assert.is_nil(io.open(db))
    local file = assert(io.open(path))
    assert.matches('^\137PNG', file:read(8))
    file:close()
    assert.equal(1, (program.run { 'trust', '--minutes', '0' }))
    -- a place that cannot be written is noticed before the work: nothing is said but that
    for _, words in ipairs { { '--db', '/dev/null/x.db' }, { '-o', '/dev/null/x.png' },
        { '-o', folder } } do
      local code, printed, said = program.run { 'trust', '--minutes', '0.001', unpack(words) }
      assert.same({ 1, '' }, { code, printed })
      assert.matches('^ridge trust: [^\n]*\ntry: ridge trust %-%-help\n$', said)
    end
    program.remove(folder)
  end)
end)
