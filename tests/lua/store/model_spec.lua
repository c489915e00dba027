-- SPDX-License-Identifier: MIT
--- Some hundred questions to a sweep, each answered a second time by plain loops over the same
--- numbers: conditions, expressions, groups, aggregates, orders, limits.

local cheap = dofile 'tests/lua/sweep/cheap_lab.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local ranks = dofile 'tests/lua/measure/ranks.lua'
local query = require 'ridge.store.query'
local store = require 'ridge.store'
local sweep = require 'ridge.sweep'

-- What each point has: a time, a number that is absent of some, text and truth. Failed points have
-- no time.
local function facts_of(k, kind, on)
  local row = { k = k, kind = kind, on = on }
  if k == 5 and kind == 'b' then return row end
  row.fwd = (k * 37 % 11 + 1) * (kind == 'a' and 100 or 250)
  row.score = k % 3 ~= 0 and k * (on and -1 or 0.5) or nil
  return row
end

local KS, KINDS, ONS = { 1, 2, 3, 4, 5, 6, 7 }, { 'a', 'b', 'B c' }, { true, false }

describe('a question and its model', function()
  local folder, st
  local all = {}

  setup(function()
    folder = folders.new()
    local path = folder .. '/m.db'
    local lab = cheap.new()
    lab.grade = 'A'
    sweep 'asked' {
      space = { k = KS, kind = KINDS, on = ONS }, anchor = { k = 1, kind = 'a', on = true },
      measure = function(p, _, m)
        local row = facts_of(p.k, p.kind, p.on)
        if not row.fwd then error('no luck') end
        m:time('fwd', function() return row.fwd end)
        m:metric('score', row.score or 0 / 0)
      end,
    }:run { db = path, calibrate = false, progress = false, lab = lab }
    st = store.open(path, 'read')
    for _, k in ipairs(KS) do
      for _, kind in ipairs(KINDS) do
        for _, on in ipairs(ONS) do all[#all + 1] = facts_of(k, kind, on) end
      end
    end
  end)
  teardown(function()
    st:close()
    folders.remove(folder)
  end)

  -- Conditions, each as it is typed and as Lua; what is absent fulfils nothing.
  local WHERE = {
    { nil, function() return true end },
    { 'k >= 3', function(r) return r.k >= 3 end },
    { 'k < 3 or k > 6', function(r) return r.k < 3 or r.k > 6 end },
    { 'kind = "a" and fwd <= 600', function(r) return r.kind == 'a' and r.fwd <= 600 end },
    { 'kind ~= "a"', function(r) return r.kind ~= 'a' end },
    { 'not (k = 2 or k = 5)', function(r) return r.k ~= 2 and r.k ~= 5 end },
    { 'score > 0', function(r) return r.score and r.score > 0 end },
    { 'score * 2 = k', function(r) return r.score and r.score * 2 == r.k end },
    { 'k * k - 1 >= 8 and k <= 2 ^ 2', function(r) return r.k * r.k >= 9 and r.k <= 4 end },
    { 'fwd / k > 200', function(r) return r.fwd and r.fwd / r.k > 200 end },
    { "kind = 'B c' and k = 7", function(r) return r.kind == 'B c' and r.k == 7 end },
    { 'k > 70', function() return false end },
  }
  -- Values of a row.
  local VALUES = {
    { 'k', function(r) return r.k end }, { 'fwd', function(r) return r.fwd end },
    { 'score', function(r) return r.score end },
    { 'fwd / k', function(r) return r.fwd and r.fwd / r.k end },
    { '-score + 1', function(r) return r.score and 1 - r.score end },
    { 'min(k, 4)', function(r) return math.min(r.k, 4) end },
    { 'max(k, score)', function(r) return r.score and math.max(r.k, r.score) end },
  }

  local function quantile(q)
    return function(list) return #list > 0 and ranks.quantile(list, q) or nil end
  end
  local function total(list)
    local sum = 0
    for _, v in ipairs(list) do sum = sum + v end
    return sum
  end
  local AGGREGATES = {
    count = function(list) return #list end,
    min = function(list) return ranks.ranked(list, 1) end,
    max = function(list) return ranks.ranked(list, #list) end,
    sum = function(list) return #list > 0 and total(list) or nil end,
    mean = function(list) return #list > 0 and total(list) / #list or nil end,
    median = quantile(0.5), p1 = quantile(0.01), p5 = quantile(0.05), p10 = quantile(0.1),
    p25 = quantile(0.25), p75 = quantile(0.75), p90 = quantile(0.9), p95 = quantile(0.95),
    p99 = quantile(0.99),
  }

  local function near(want, got, what)
    if type(want) == 'number' and type(got) == 'number' then
      if math.abs(want - got) <= 1e-9 * math.max(1, math.abs(want)) then return end
    elseif want == got then
      return
    end
    error(('%s: want %s, got %s'):format(what, tostring(want), tostring(got)), 0)
  end

  local function key(r) return ('%d %s %s'):format(r.k, r.kind, tostring(r.on)) end

  it('of rows agree, whatever is asked, and in the order that is asked for', function()
    for _, where in ipairs(WHERE) do
      local wanted, n = {}, 0
      for _, r in ipairs(all) do
        local ok, holds = pcall(where[2], r) -- to compare what is absent is an error of Lua
        if ok and holds then wanted[key(r)], n = r, n + 1 end
      end
      for _, value in ipairs(VALUES) do
        for _, falling in ipairs { '', '-' } do
          local what = ('%s of %s by %s4'):format(value[1], tostring(where[1]), falling)
          local found = query.ask(st, 'asked', { columns = 'k, kind, on, v := ' .. value[1],
            where = where[1], sort = falling .. (falling == '' and 'v' or '4') })
          assert.same({ 'k', 'kind', 'on', 'v' }, found.titles)
          assert.equal(n, #found.lines, what)
          local last, seen
          for i, line in ipairs(found.lines) do
            local on = line[3] == true or line[3] == 1
            local r = wanted[key { k = line[1], kind = line[2], on = on }]
            assert.is_truthy(r, what)
            near(value[2](r), line[4], what)
            if i > 1 and line[4] ~= nil then
              assert.is_true(last ~= nil, what) -- what is absent comes last
              assert.is_true(falling == '' and last <= line[4] or falling ~= '' and last >= line[4],
                what)
            end
            last = line[4]
            seen = seen or {}
            assert.is_nil(seen[r])
            seen[r] = true
          end
          local limited = query.ask(st, 'asked', { columns = 'k, kind, on, v := ' .. value[1],
            where = where[1], sort = falling .. '4', limit = 3 })
          assert.equal(math.min(n, 3), #limited.lines)
          for i, line in ipairs(limited.lines) do assert.same(found.lines[i], line) end
        end
      end
    end
  end)

  it('of groups agree in every aggregate', function()
    for _, by in ipairs { { 'kind' }, { 'on' }, { 'k' }, { 'kind', 'on' }, {} } do
      for _, where in ipairs(WHERE) do
        local groups, n = {}, 0
        for _, r in ipairs(all) do
          local ok, holds = pcall(where[2], r)
          if ok and holds then
            local parts = {}
            for i, name in ipairs(by) do parts[i] = tostring(r[name]) end
            local own = table.concat(parts, ' ')
            if not groups[own] then groups[own], n = {}, n + 1 end
            table.insert(groups[own], r)
          end
        end
        for name, aggregate in pairs(AGGREGATES) do
          local value = VALUES[(#name + #by) % #VALUES + 1]
          local columns = { ('%s(%s)'):format(name, value[1]), 'n := count()' }
          for _, each in ipairs(by) do columns[#columns + 1] = each end
          local what = ('%s by %s of %s'):format(columns[1], table.concat(by, ','),
            tostring(where[1]))
          local found = query.ask(st, 'asked', { columns = table.concat(columns, ', '),
            where = where[1], group = #by > 0 and table.concat(by, ',') or nil })
          assert.equal(n, #found.lines, what)
          for _, line in ipairs(found.lines) do
            local parts = {}
            for i, each in ipairs(by) do
              local v = line[2 + i]
              if each == 'on' then v = v == true or v == 1 end
              parts[i] = tostring(v)
            end
            local group = groups[table.concat(parts, ' ')]
            assert.is_truthy(group, what)
            local list = {}
            for _, r in ipairs(group) do
              local v = value[2](r)
              if v then list[#list + 1] = v end
            end
            near(aggregate(list), line[1], what)
            assert.equal(#group, line[2], what)
          end
        end
      end
    end
  end)

  it('of a group have one value, be it absent or nan, and else none', function()
    local nan = 'k * 1e308 * 10 - k * 1e308 * 10'
    local found = query.ask(st, 'asked', { columns = 'kind, v := ' .. nan .. ', count()',
      group = 'kind' })
    assert.equal(3, #found.lines)
    for _, line in ipairs(found.lines) do
      assert.is_true(line[2] ~= line[2])
      assert.equal(14, line[3])
    end
    local ok, err = pcall(query.ask, st, 'asked', { columns = 'kind, k', group = 'kind' })
    assert.is_false(ok)
    assert.equal('k has several values in a group: group by it, too, or take its median, max ...',
      err.message)
    ok, err = pcall(query.ask, st, 'asked', { columns = 'k, v := k / (k - k), score',
      where = 'k = 1', group = 'k' })
    assert.is_false(ok)
    assert.matches('^score has several values', err.message)
  end)
end)
