-- SPDX-License-Identifier: MIT
--- What `ridge trust` says of records, beside the same rules written out plainly.

local passes = require 'ridge.measure.passes'
local statistics = require 'ridge.measure.statistics'
local trust = require 'ridge.measure.trust'

local quantile = dofile('tests/lua/measure/ranks.lua').quantile

local plainly = dofile 'tests/lua/measure/plainly.lua'
local seeded, median = plainly.seeded, plainly.median
local same, column = plainly.same, plainly.column

describe('what processes differ by', function()
  local function logs_of(list)
    local out = {}
    for i, v in ipairs(list) do out[i] = math.log(v) end
    return out
  end

  local function robust(list)
    local middle, away = median(list), {}
    for i, v in ipairs(list) do away[i] = math.abs(v - middle) end
    return 1.4826 * median(away)
  end

  -- The windows of the smallest work, as states and how long each stretch of one lasts.
  local function states(windows)
    local logs = logs_of(column(windows, 'ns'))
    local removed, smaller, at = statistics.two_means(statistics.sorted(logs))
    if #logs < 20 or removed <= 0.8 or smaller < 0.02 then return { n = 1 } end
    local sorted = statistics.sorted(logs)
    local slow, fast, stretches = {}, {}, { fast = {}, slow = {} }
    for _, v in ipairs(logs) do table.insert(v > sorted[at] and slow or fast, v) end
    local from, was = windows[1].at_s, logs[1] > sorted[at]
    for i, v in ipairs(logs) do
      if (v > sorted[at]) ~= was then
        table.insert(stretches[was and 'slow' or 'fast'], windows[i].at_s - from)
        from, was = windows[i].at_s, v > sorted[at]
      end
    end
    local out = { n = 2, share_slow = #slow / #logs,
      factor = math.exp(median(slow) - sorted[math.ceil(at / 2)]) }
    for name, list in pairs(stretches) do
      if #list > 0 then out[name .. '_s'] = { median(list), quantile(list, 0.95) } end
    end
    return out
  end

  it('is told of each kind of work, of copies and of windows', function()
    local two = 0
    for seed = 1, 9 do
      local draw = seeded(seed)
      local record = { threads = 2, passes = {}, windows = {} }
      local apart = seed % 2 == 0 and 12 or 3   -- a minute or more, and less
      for i = 1, 5 + draw(9) do
        local pass = { at_s = apart * i }
        for k, kind in ipairs(trust.KINDS) do
          pass[kind] = { {}, {} }
          local base = 1000 * k * (1 + draw(30) / 100)
          for copy = 1, 2 do
            for w = 1, 3 do pass[kind][copy][w] = base * (1 + copy / 50 + draw(40) / 1000) end
          end
        end
        record.passes[i] = pass
      end
      local slow = false
      for i = 1, 10 + draw(60) do
        if draw(4) == 0 then slow = not slow end
        record.windows[i] = { at_s = i / 8, ns = (slow and seed % 3 > 0 and 200 or 100) + draw(9) }
      end
      local got, up, down = trust.summary(record), 0, 0
      for k, kind in ipairs(trust.KINDS) do
        local meds, windows, layouts, squares, dof = {}, {}, {}, 0, 0
        for i, pass in ipairs(record.passes) do
          local a, b = pass[kind][1], pass[kind][2]
          meds[i], layouts[i] = median(a), math.log(median(b) / median(a))
          windows[i] = { a[1], a[2], a[3], b[1], b[2], b[3] }
          for _, copy in ipairs { a, b } do
            squares, dof = squares + 2 * statistics.sd(logs_of(copy)) ^ 2, dof + 2
          end
        end
        local found = passes.interval(meds, { windows = windows })
        local logs = {}
        for i, ns in ipairs(meds) do logs[i] = math.log(ns / found.med) end
        local own, groups, near = got.kinds[k], {}, {}
        local ninth = apart * #record.passes / 9
        for i, log in ipairs(logs) do
          local g = math.floor(apart * i / ninth)
          groups[g] = groups[g] or {}
          table.insert(groups[g], log)
        end
        for _, group in pairs(groups) do
          for _, log in ipairs(group) do
            near[#near + 1] = (log - median(group)) * math.sqrt(#group / math.max(1, #group - 1))
          end
        end
        assert.equal(apart * #record.passes >= 60 and #record.passes > 4, own.minutes ~= nil)
        same({ kind = kind, found = found, quiet = passes.quiet(windows), logs = logs,
          sd = statistics.sd(logs), robust = robust(logs), layout = robust(layouts) / math.sqrt(2),
          within = math.sqrt(squares / dof), up = math.max(0, quantile(logs, 0.975)),
          down = math.max(0, -quantile(logs, 0.025)), alone = own.alone, paired = own.paired,
          near_up = math.max(0, quantile(near, 0.975)),
          near_down = math.max(0, -quantile(near, 0.025)), minutes = own.minutes },
          own, kind .. ' of seed ' .. seed)
        for _, n in ipairs { 5, 9, 12 } do -- of drawn ones; more of them are surer
          assert.is_true(own.alone[n] > 0 and own.alone[n] <= own.alone[5])
          assert.is_true(own.paired[n] > 0 and own.paired[n] <= own.paired[5])
        end
        up, down = math.max(up, own.up), math.max(down, own.down)
      end
      same({ threads = 2, n = #record.passes, seconds = apart * #record.passes,
        minutes = got.minutes, up = up, down = down,
        states = states(record.windows), kinds = got.kinds }, got, 'seed ' .. seed)
      two = two + (got.states.n == 2 and 1 or 0)
      for n, word in pairs { 'thread', 'threads' } do
        got.threads = n
        assert.equal(('What this machine can promise: %d processes in %d s, %d %s.'):format(got.n,
          got.seconds, n, word), trust.text(got):match '^[^\n]*')
      end
      -- as rows, and as points over the median of their kind
      local rows = {}
      for _, row in ipairs(trust.rows(got)) do
        assert.same({ 2, row.name == 'trust.seconds' and 's' or '1' }, { row.threads, row.unit })
        rows[row.name] = row.value
      end
      local want = { ['trust.up'] = up, ['trust.down'] = down, ['trust.processes'] = got.n,
        ['trust.seconds'] = got.seconds }
      for _, k in ipairs(got.kinds) do
        for name, value in pairs { up = k.up, down = k.down, sd = k.sd, layout = k.layout,
            paired = k.paired[9] } do
          want['trust.' .. name .. '.' .. k.kind] = value
        end
        for _, name in ipairs(k.minutes and { 'minutes', 'near_up', 'near_down' } or {}) do
          want['trust.' .. name .. '.' .. k.kind] = k[name]
          want['trust.minutes'] = got.minutes
        end
      end
      same(want, rows, 'rows')
      local points = {}
      for _, p in ipairs(trust.points(record)) do
        points[p.kind] = points[p.kind] or {}
        table.insert(points[p.kind], { p.at_s, p.ratio })
      end
      local ns = column(record.windows, 'ns')
      assert.equal(#ns, #points.windows)
      for i, w in ipairs(record.windows) do
        same({ w.at_s, w.ns / median(ns) }, points.windows[i], 'window')
      end
      for _, k in ipairs(got.kinds) do
        for i, v in ipairs(k.logs) do
          assert.equal(record.passes[i].at_s, points[k.kind][i][1])
          assert.near(v - median(k.logs), math.log(points[k.kind][i][2]), 0.06)
        end
      end
    end
    assert.is_true(two > 3, two)
  end)
end)
