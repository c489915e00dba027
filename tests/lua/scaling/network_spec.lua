-- SPDX-License-Identifier: MIT
-- What all-reduces take: the line through times, what is kept of it, and two real ranks.

local folders = dofile 'tests/lua/store/folder.lua'
local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local program = require 'tests.lua.repl.program'
local network = require 'ridge.scaling.network'

local BYTES = { 4, 1024, 65536, 1048576 }

-- What ranks write whose all-reduces take alpha + beta b, times what a round is slower by.
local function written(alpha, beta, slower)
  local lines = { 'mpi' }
  for round, factor in ipairs(slower) do
    for _, b in ipairs(BYTES) do
      lines[#lines + 1] = ('%d %d %.3f'):format(b, round, (alpha + beta * b) * factor)
    end
  end
  return table.concat(lines, '\n') .. '\n'
end

describe('a network', function()
  it('is the line through times that are on one', function()
    local alpha, beta = network.fit({ 4, 1000, 1e6 }, { 24.8, 1220, 1200020 })
    assert.near(20, alpha, 1e-6)
    assert.near(1.2, beta, 1e-9)
  end)

  it('is off by the same share everywhere where no line fits, and both of it are positive',
    function()
      -- long messages would pull a line through absolute times below zero
      local alpha, beta = network.fit({ 4, 65536, 4194304 }, { 10000, 20000, 4000000 })
      assert.is_true(alpha > 8000 and alpha < 10100)
      assert.is_true(beta > 0.15 and beta < 0.95)
      alpha, beta = network.fit({ 4, 1000 }, { 10, 100000 })
      assert.equal(10, alpha)
      assert.is_true(beta > 0)
      alpha, beta = network.fit({ 4, 1000 }, { 100, 50 })
      assert.is_true(alpha > 50 and alpha < 100)
      assert.equal(0, beta)
    end)

  it('has the medians of its rounds, and intervals of its starts', function()
    local texts = {}
    for i, factor in ipairs { 0.9, 1, 1.1, 1, 1.05 } do
      texts[i] = written(2000 * factor, 0.5 * factor, { 1, 0.9, 7, 1, 1.1 })
    end
    local found = network.of(texts)
    assert.equal('mpi', found.library)
    assert.near(2000, found.alpha.med, 1)
    assert.near(0.5, found.beta.med, 1e-3)
    assert.is_true(found.alpha.lo <= 1801 and found.alpha.hi >= 2199)
    assert.near(2002, found.sizes[1].med, 1)
    assert.near(2512, found.sizes[2].med, 1)
    assert.near(0, found.off, 1e-3)
    local few = network.of { texts[2], texts[3] }
    assert.is_nil(few.alpha.lo)
    assert.is_false((pcall(network.of, { 'mpi\n' })))
  end)

  it('has in its intervals what other minutes than those of its starts differ by', function()
    local texts, times = {}, {}
    for i, factor in ipairs { 0.9, 1, 1.1, 1, 1.05 } do
      texts[i], times[i] = written(2000 * factor, 0.5 * factor, { 1, 0.9, 7, 1, 1.1 }), 40 * i
    end
    local own = network.of(texts)
    local found = network.of(texts, { times = times, source = { sd = 0.05, kinds = {} } })
    local sd = 0.05 * math.sqrt(1 - 160 / 600)
    assert.near(sd, found.sd_minutes, 1e-12)
    assert.is_nil(own.sd_minutes)
    local function check(a, b)
      assert.near(math.log(a.med / a.lo) ^ 2 + (2 * sd) ^ 2, math.log(b.med / b.lo) ^ 2, 1e-9)
      assert.near(math.log(a.hi / a.med) ^ 2 + (2 * sd) ^ 2, math.log(b.hi / b.med) ^ 2, 1e-9)
    end
    check(own.alpha, found.alpha)
    check(own.beta, found.beta)
    for i, size in ipairs(own.sizes) do check(size, found.sizes[i]) end
  end)

  it('has the mean of both middle rounds where their number is even', function()
    for _, rounds in ipairs { { 2, { 1, 3 } }, { 3.5, { 9, 5, 1, 2 } }, { 2, { 8, 1, 2, 1, 9 } },
                              { 4, { 1, 1, 2, 6, 9, 9 } } } do
      local found = network.of { written(1000, 0.5, rounds[2]) }
      for i, bytes in ipairs(BYTES) do
        assert.near(rounds[1] * (1000 + 0.5 * bytes), found.sizes[i].med, 0.01)
      end
    end
  end)

  describe('that is kept', function()
    local folder, db
    before_each(function()
      folder = folders.new()
      db = folder .. '/n.db'
    end)
    after_each(function() folders.remove(folder) end)

    local function measured(factor, starts, source)
      local launched = {}
      local summary = network.sweep { ranks = { 2, 4 }, sizes = BYTES, starts = starts or 5,
        rounds = 3, processors = 2, source = source, launch = function(ranks)
          launched[#launched + 1] = ranks
          local own = 1 + 0.02 * (#launched % 5)
          return written(1000 * ranks * factor * own, 0.25 * ranks * factor * own, { 1, 1, 1 })
        end }:run { db = db, new = true, calibrate = false, progress = false,
          lab = cheap_lab.new() }
      assert.equal(0, summary.failed)
      return summary, launched
    end
    local function stored(cpu)
      local st = require('ridge.store').open(db, 'read')
      local machine = cheap_lab.new().facts().machine
      machine.cpu = cpu or machine.cpu
      local list, elsewhere = network.stored(st, machine)
      st:close()
      return list, elsewhere
    end

    it('is that of this machine, where a merged file has others', function()
      measured(1)
      local list, elsewhere = stored()
      assert.same({ 2, 0 }, { #list, elsewhere })
      list, elsewhere = stored 'another'
      assert.same({ 0, 2 }, { #list, elsewhere })
      assert.equal(' (2 measured on other machines are not of this one)',
        network.elsewhere(elsewhere))
      local status, out, err = program.run { 'net', '--show', '--db', db }
      assert.equal(1, status, out)
      assert.matches('nothing is stored of it %(2 measured on other machines', err)
    end)

    it('is what was measured last, by ranks, with its intervals', function()
      local _, launched = measured(1)
      table.sort(launched)
      assert.same({ 2, 2, 2, 2, 2, 4, 4, 4, 4, 4 }, launched)
      local list = stored()
      assert.equal(2, #list)
      for i, ranks in ipairs { 2, 4 } do
        local each = list[i]
        assert.equal(ranks, each.ranks)
        assert.near(1040 * ranks, each.alpha.med, 1)
        assert.near(0.26 * ranks, each.beta.med, 1e-3)
        assert.is_true(each.alpha.lo < each.alpha.med and each.alpha.med < each.alpha.hi)
        assert.is_true(each.beta.lo < each.beta.med and each.beta.med < each.beta.hi)
        assert.near(0, each.off, 1e-3)
      end
      measured(2)
      list = stored()
      assert.equal('net-2', list[2].sweep)
      assert.near(2 * 1040 * 4, list[2].alpha.med, 2)
      measured(3, 1)
      assert.is_nil(stored()[1].alpha.lo)
    end)

    it('says how much of its intervals other minutes are', function()
      measured(1)
      local own = stored()[1]
      measured(1, 5, { sd = 0.03, kinds = {}, how = 'clock' })
      local list = stored()
      assert.near(0.028, list[1].sd_minutes, 0.0021) -- a moment, of ten minutes
      assert.is_nil(own.sd_minutes)
      for _, name in ipairs { 'alpha', 'beta' } do
        assert.is_true(list[1][name].hi / list[1][name].lo > own[name].hi / own[name].lo + 0.02)
      end
      assert.matches('Intervals hold up to [56]%.%d %% for what other minutes differ by%.',
        network.text(list, 2))
    end)

    it('is shown with what it is of', function()
      measured(1)
      local text = network.text(stored(), 2)
      assert.equal(table.concat({
        'ranks  alpha, us         1/beta, GB/s        line off by  ranks a processor',
        '2      2.08 (2 to 2.16)  1.92 (1.85 to 2)    0 %          1',
        '4      4.16 (4 to 4.32)  0.962 (0.926 to 1)  0 %          2',
        'An all-reduce of b bytes takes alpha + beta b.' }, '\n'), text:match '^.-beta b%.')
      assert.matches('nothing is said of a network. It has 2 processors', text)
    end)
  end)

  local there = io.open 'build/libridge_mpi.so' and os.execute 'command -v mpirun >/dev/null' == 0
  if not there then
    pending('of two ranks (no Open MPI: scripts/deps mpi)', function() end)
  else
    it('of two ranks is measured, and kept', function()
      local folder = folders.new()
      local text, status = folders.run(('RIDGE_LOCKS=%s RIDGE_PROGRESS=off ./ridge net -n 2 '
        .. '--starts 1 --rounds 2 --sizes 4,65536 --db %s/n.db'):format(folder, folder))
      assert.equal(0, status, text)
      assert.matches('\n2  +[%d.e+]+ +[%d.e+]+ +%d+ %%', text)
      text = folders.run(('./ridge query net "us_4, us_65536" --as csv --db %s/n.db')
        :format(folder))
      local short, long = text:match '\n([%d.e+]+),([%d.e+]+)\n'
      assert.is_true(tonumber(short) > 0 and tonumber(long) > 0)
      folders.remove(folder)
    end)
  end
end)
