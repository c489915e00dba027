-- SPDX-License-Identifier: MIT
-- `ridge scale`: what is made of steps that were looked at, and two real ranks.

local folders = dofile 'tests/lua/store/folder.lua'
local steps = require 'ridge.scaling.steps'
local scaling = require 'ridge.scaling.table'

-- Steps of ranks that take ns, with two buckets; the first three are left out.
local function written(ns, more)
  local list = {}
  for i = 1, 23 do
    local own = i <= 3 and 50 * ns or ns * (1 + ((i % 5) - 2) * (more or 0))
    list[i] = { ns = own, ready = { 0.5 * own, 0.9 * own }, bytes = { 4000, 800 } }
  end
  return steps.text(list, 'MPI')
end

describe('a training that is scaled', function()
  it('has the middle of its steps, and when buckets are ready in them', function()
    local found = steps.read(written(100000, 0.01))
    assert.equal(100000, found.ns)
    assert.same({ { ready = 50000, bytes = 4000 }, { ready = 90000, bytes = 800 } }, found.buckets)
    assert.near(math.log(1.01 / 0.99) / 1.349, found.spread, 1e-3)
    assert.is_nil(steps.read(written(1000):match('^' .. ('[^\n]*\n'):rep(8))))
  end)

  local function measured(starts, factor)
    local list = {}
    for i = 1, starts do
      local slower = 1 + 0.01 * (i % 3)
      list[i] = { [1] = steps.read(written(100000 * slower)),
        [2] = steps.read(written(factor * 100000 * slower)) }
    end
    return steps.together(list, { 1, 2 })
  end

  it('has efficiencies within starts, with intervals from five on', function()
    local by, one = measured(5, 1.25)
    assert.near(101000, by[1].step.med, 1)
    assert.is_true(by[2].step.lo < by[2].step.med and by[2].step.hi > by[2].step.med)
    assert.near(0.8, by[2].efficiency.lo, 1e-6) -- what a start is slower by falls on both
    assert.near(0.8, by[2].efficiency.hi, 1e-6)
    assert.near(0.9 * 101000, one.buckets[2].ready, 1)
    assert.is_nil(measured(4, 1.25)[1].step.lo)
  end)

  it('has steps with what other minutes differ by, and efficiencies without', function()
    local list, times = {}, {}
    for i = 1, 5 do
      list[i] = { [1] = steps.read(written(100000 + 100 * i)), [2] = steps.read(written(125000)) }
      times[i] = 7e8 + 30 * i -- two minutes: 80 % of the variance was not seen
    end
    local plain = steps.together(list, { 1, 2 })
    local around = { times = times, source = { sd = 0.02, kinds = {}, how = 'assumed' } }
    local by, one = steps.together(list, { 1, 2 }, around)
    local sd = 0.02 * math.sqrt(1 - 120 / 600)
    for n = 1, 2 do
      local s, before = by[n].step, plain[n].step
      assert.near(sd, s.sd_minutes, 1e-12)
      assert.near(before.lo, s.own_lo, 1e-6)
      assert.near(before.hi, s.own_hi, 1e-6)
      assert.near(math.log(s.med / before.lo) ^ 2 + (2 * sd) ^ 2, math.log(s.med / s.lo) ^ 2, 1e-12)
      assert.near(math.log(before.hi / s.med) ^ 2 + (2 * sd) ^ 2, math.log(s.hi / s.med) ^ 2, 1e-12)
      assert.same(plain[n].efficiency, by[n].efficiency)
    end
    -- the band too, of times alone; what was measured in these minutes is held against it without
    local net = { alpha = { med = 200 }, beta = { med = 0.5 } }
    local opt = { ranks = { 2 }, processors = 4, machine = 2, threads = 1 }
    local with = scaling.predict(by, one, net, opt)[1]
    local without = scaling.predict(plain, one, net, opt)[1]
    assert.same({ without.lo, without.hi, without.efficiency_lo, without.efficiency_hi },
      { with.own_lo, with.own_hi, with.efficiency_lo, with.efficiency_hi })
    assert.is_true(with.lo < 0.97 * without.lo and with.hi > 1.03 * without.hi)
    by[2].step.med = (with.hi + without.hi) / 2
    local text = scaling.sentences({ { setting = {}, measured = by, predicted = { with } } },
      { machine = 2, threads = 1, processors = 2, messages = 'as given', alpha_ns = 200,
        beta_ns = 0.5 })
    assert.matches('\n0 of 1 steps that were measured', text)
    assert.matches('\nSteps hold 3.6 % for what other minutes differ by, efficiencies none of '
      .. 'it.\n', text, 1, true)
    -- below five starts there is none
    local few = steps.together({ list[1], list[2] }, { 1 }, around)[1].step
    assert.is_nil(few.lo)
  end)

  it('is predicted, and what was measured stays what it is', function()
    local by, one = measured(5, 1.01)
    local net = { alpha = { med = 200 }, beta = { med = 0.5 } }
    local predicted = scaling.predict(by, one, net, { ranks = { 1, 2, 4, 64 }, processors = 4,
      machine = 2, threads = 1 })
    -- 2 ranks: 0.9 of the step, and 2 x (200 + 0.5 x 800 / 2) ns
    assert.near(101000, predicted[2].ns, 1)
    local rows = scaling.rows(by, predicted)
    local shown = {}
    for i, line in ipairs(rows.lines) do shown[i] = line[1] .. ' ' .. line[2] end
    assert.equal('1 measured, 1 model, 2 measured, 2 model, 4 model, 64 model',
      table.concat(shown, ', '))
    assert.near(by[2].step.med / 1e3, rows.lines[3][3], 1e-9)
    assert.is_nil(rows.lines[3][9])
    assert.equal(102, scaling.rows(by, predicted, 3).lines[3][3])
    local facts = { machine = 2, threads = 1, processors = 2, messages = 'as given', alpha_ns = 200,
      beta_ns = 0.5 }
    -- 0.9 x 101000 + 2 x 63 x (200 + 0.5 x 800 / 64) ns
    assert.equal('By the model it is no longer near-linear from 64 ranks on (86 %): the messages '
      .. 'themselves take too long, however short they are.\n'
      .. "1 of 1 steps that were measured on several ranks lie in the model's band.\n"
      .. 'Messages are as given: 0.2 us each, 2 GB/s; 2 ranks of 1 thread on a machine of 2 '
      .. 'processors.',
      scaling.sentences({ { setting = {}, measured = by, predicted = predicted } }, facts))
    -- fitted to two ranks, which took 1 % longer
    local fitted, crowding = scaling.predict(by, one, net, { ranks = { 1, 2, 4 }, processors = 4,
      machine = 4, threads = 1, fitted = { 2 } })
    assert.near(by[2].step.med, fitted[2].ns, 1)
    assert.near(0.01, crowding, 1e-4)
    -- and on full processors 6 x (200 + 0.5 x 1000) and 6 x (200 + 0.5 x 200) ns of messages
    assert.near(1.03 * 101000 + 4200 + 1800, fitted[3].ns, 10)
    facts.fitted = true
    local each = { setting = {}, measured = by, predicted = fitted, crowding = crowding }
    assert.matches("lie in the model's band, which was fitted to them: computing takes 1 %% longer "
      .. 'for each further rank on a machine%.\n', scaling.sentences({ each }, facts))
    assert.matches('batch 32: computing takes 1 %% longer for each further rank on a machine%.\n'
      .. 'batch 64: computing takes 3 %% longer for each further rank on a machine%.\n',
      scaling.sentences({
        { setting = { batch = 32 }, measured = by, predicted = fitted, crowding = crowding },
        { setting = { batch = 64 }, measured = by, predicted = fitted, crowding = 0.03 } }, facts))
    for share, said in pairs { [1.7] = '170 %', [12.34] = '1234 %', [0.0994] = '9.9 %',
        [0.0996] = '10 %', [0.0052] = '0.52 %', [1] = '100 %' } do -- never 1e+02
      assert.equal(said, require('ridge.plain').percent(share))
    end
    each.crowding = 1.7
    assert.matches('computing takes 170 % longer for each', scaling.sentences({ each }, facts), 1,
      true)
    each.crowding = crowding
    facts.fitted = nil
    -- one that was faster than its band is not in it
    assert.matches('\n0 of 1 steps', scaling.sentences({ { setting = {}, measured = by,
      predicted = scaling.predict(by, one, { alpha = { med = 1e6 }, beta = { med = 0.5 } },
        { ranks = { 2 }, processors = 4, machine = 2, threads = 1 }) } }, facts))
    by, one = measured(5, 3)
    predicted = scaling.predict(by, one, net, { ranks = { 1, 2 }, processors = 4, machine = 2,
      threads = 1 })
    local text = scaling.sentences({ { setting = {}, measured = by, predicted = predicted } },
      facts)
    assert.matches('^By the model it stays near%-linear up to 2 ranks %(100 %%%)%.\n0 of 1 steps',
      text)
  end)

  it('tells a script that takes no notice of --batch', function()
    local settings = require 'ridge.scaling.settings'
    local function of(...)
      local list = {}
      for i, pair in ipairs { ... } do
        list[i] = { setting = { batch = pair[1] or nil }, rows = pair[2] }
      end
      return settings.unheeded(list)
    end
    assert.equal('a step has 8 rows with --batch 8, with --batch 16', of({ 8, 8 }, { 16, 8 }))
    assert.equal('a step has 8 rows with --batch 16', of { 16, 8 })
    assert.equal('a step has 8 rows with --batch 16, with --batch 32', of({ 16, 8 }, { 16, 8 },
      { 32, 8 }, { 32, 8 }))
    assert.is_nil(of({ 8, 8 }, { 16, 16 }))
    assert.is_nil(of({ 8, 4 }, { 16, 8 })) -- of each of two parts
    assert.is_nil(of { 8, 8 })
    assert.is_nil(of({ 8, 0 }, { 16, 0 })) -- not told
    assert.is_nil(of { false, 8 })
    local list = {}
    for i = 1, 9 do list[i] = { ns = 1000, ready = { 500 }, bytes = { 4 }, rows = 12 } end
    assert.equal(12, steps.read(steps.text(list, 'MPI')).rows)
    assert.same({ { ready = 500, bytes = 4 } }, steps.read(steps.text(list, 'MPI')).buckets)
  end)

  it('has settings, each with each, and buckets are made as they say', function()
    local settings = require 'ridge.scaling.settings'
    local all, axes = settings.all {}
    assert.same({ { {} }, {} }, { all, axes })
    assert.equal('', settings.name(all[1]))
    all, axes = settings.all { compress = { 'none', 'bf16' }, batch = { 8, 16 } }
    assert.same({ 'batch', 'compress' }, axes)
    local names = {}
    for i, one in ipairs(all) do names[i] = settings.name(one) end
    assert.same({ 'batch 8, none', 'batch 8, bf16', 'batch 16, none', 'batch 16, bf16' }, names)
    assert.equal('batch 1234567, 1.5000001 MB', settings.name { batch = 1234567,
      bucket_mb = 1.5000001 }) -- settings apart have names apart
    local list = {}
    for i, one in ipairs(all) do list[i] = { setting = one } end
    assert.equal(list[3], settings.find(list, axes, { batch = 16, compress = 'none', ranks = 2 }))
    local Buckets = { init = function(self, _, _, opts) self.opts = opts end }
    steps.replace(Buckets, { bucket_mb = 3 })
    local made = {}
    Buckets.init(made, nil, nil, { bucket_mb = 25, compress = 'bf16', overlap = true })
    assert.same({ bucket_mb = 3, compress = 'bf16', overlap = true }, made.opts)
  end)

  it('says of each setting what it would scale like', function()
    local by, one = measured(5, 1.01)
    local list = {}
    for i, beta in ipairs { 0.5, 500 } do
      list[i] = { setting = { bucket_mb = i }, measured = by, predicted = scaling.predict(by, one,
        { alpha = { med = 200 }, beta = { med = beta } }, { ranks = { 2, 4 }, processors = 4,
          machine = 2, threads = 1 }) }
    end
    local text = scaling.sentences(list, { machine = 2, threads = 1, processors = 2,
      messages = 'as given', alpha_ns = 200, beta_ns = 0.5 })
    assert.matches('^1 MB: by the model it stays near%-linear up to 4 ranks %(%d+ %%%)%.\n'
      .. '2 MB: by the model it is no longer near%-linear from [24] ranks on .*%.\n1 of 2 steps',
      text)
    local found = scaling.all(list, { 'bucket_mb' })
    assert.same({ 'bucket_mb', 'ranks', 'how' }, { unpack(found.titles, 1, 3) })
    assert.same({ 2, 4, 'model' }, { unpack(found.lines[#found.lines], 1, 3) })
    assert.equal('\137PNG', require('ridge.scaling.picture').make(list, { 'bucket_mb' },
      { script = 'train.lua', device = '' }, text):png():sub(1, 4))
  end)

  local there = io.open 'build/libridge_mpi.so' and os.execute 'command -v mpirun >/dev/null' == 0
  if not there then
    pending('on real ranks (no Open MPI: scripts/deps mpi)', function() end)
  else
    it('on real ranks is measured and predicted, and predictions are kept as such', function()
      local folder = folders.new()
      folders.put(folder .. '/train.lua', [[
local ridge = require 'ridge'
local opt = ridge.args { { 'width', 8, 'of the net' }, { 'batch', 4, 'rows of each rank' } }
local world = ridge.dist.init { timeout = 60 }
local net = ridge.dist.DataParallel(ridge.nn.Linear(opt.width, 3, { seed = 1 }))
for i = 1, 30 do
  ridge.nn.cross_entropy(net(ridge.randn(opt.batch, opt.width)),
    ridge.randint(0, 3, opt.batch)):backward()
end
error 'it has been looked at before']])
      local text, status = folders.run(('RIDGE_LOCKS=%s RIDGE_PROGRESS=off ./ridge scale '
        .. '%s/train.lua --steps 12 --starts 1 --ranks 1,2,1024 --alpha 1000 --rate 1 --db '
        .. '%s/s.db --as csv --timeline %s/t.png -- --width 16'):format(folder, folder, folder,
        folder))
      assert.equal(0, status, text)
      local seen = {}
      for n, how, us in text:gmatch '\n(%d+),(%l+),([%d.e+]+)' do
        seen[#seen + 1] = n .. ' ' .. how
        assert.is_true(tonumber(us) > 1 and tonumber(us) < 1e8)
        if n == '1024' then assert.is_true(tonumber(us) > 2046 * 1000) end
      end
      assert.equal('1 measured, 1 model, 2 measured, 2 model, 1024 model',
        table.concat(seen, ', '))
      text = folders.run(([[./ridge query --sql "SELECT name, how, count(*) AS n FROM main.metric
        WHERE name IN ('step_us', 'model_us', 'model_us_lo', 'efficiency') GROUP BY 1, 2"
        --as csv --db %s/s.db]]):gsub('\n%s*', ' '):format(folder))
      assert.matches('\nefficiency,,2\nmodel_us,model,3\nmodel_us_lo,model,3\nstep_us,,2\n', text)
      local file = assert(io.open(folder .. '/t.png', 'rb'))
      local png = file:read '*a'
      file:close()
      assert.matches('The step of middle length of 9, ', png, 1, true) -- 12 without three
      assert.matches('All ranks read one clock.', png, 1, true)
      folders.remove(folder)
    end)

    it('on real ranks is measured with each setting', function()
      local folder = folders.new()
      folders.put(folder .. '/train.lua', [[
local ridge = require 'ridge'
local opt = ridge.args { { 'width', 8, 'of the net' }, { 'batch', 4, 'rows of each rank' } }
ridge.dist.init { timeout = 60 }
local net = ridge.dist.DataParallel(ridge.nn.Linear(opt.width, 3, { seed = 1 }))
local file = io.open(opt.batch .. '.txt', 'a')
for i = 1, 30 do
  net(ridge.randn(opt.batch, opt.width)):sum():backward()
  if i == 1 then file:write(net:bucket_list()[1].bytes, '\n') end
  file:flush()
end]])
      local program = io.popen('pwd'):read '*l' .. '/ridge'
      local command = ('cd %s; RIDGE_LOCKS=%s RIDGE_PROGRESS=off %s scale train.lua --db t.db ')
        :format(folder, folder, program)
      local text, status = folders.run(command .. '--steps 8 --starts 1 --measure 1 --ranks 1,2,3 '
        .. '--alpha 1e3 --rate 1 --compress none,bf16 --batch 2,64 --as csv -- --width 16')
      assert.equal(0, status, text)
      local seen = {}
      for batch, kind, n, how in text:gmatch '\n(%d+),(%w+),(%d+),(%l+)' do
        seen[#seen + 1] = table.concat({ batch, kind, n, how }, ' ')
      end
      assert.equal(16, #seen, text)
      assert.equal('64 bf16 3 model', seen[16])
      for _, batch in ipairs { '2', '64' } do -- 51 elements and a flag for each of 2 parameters
        assert.equal('212\n106\n', folders.get(folder .. '/' .. batch .. '.txt'))
      end
      text = folders.run(program .. " query scale 'batch, compress, ranks, model_us' --as csv --db "
        .. folder .. '/t.db')
      for _, line in ipairs { '2,none,3', '2,bf16,3', '64,none,3', '64,bf16,3' } do
        assert.matches('\n' .. line .. ',', text, 1, true)
      end
      -- a script of the same work whatever --batch is: nothing of it is kept
      folders.put(folder .. '/deaf.lua', [[
local ridge = require 'ridge'
ridge.dist.init { timeout = 60 }
local net = ridge.dist.DataParallel(ridge.nn.Linear(8, 3, { seed = 1 }))
for _ = 1, 30 do net(ridge.randn(4, 8)):sum():backward() end]])
      text, status = folders.run((command:gsub('train%.lua %-%-db t', 'deaf.lua --db u'))
        .. '--steps 8 --starts 1 --measure 1 --ranks 1 --alpha 1e3 --rate 1 --batch 2,4 2>&1')
      assert.equal(1, status, text)
      assert.matches('ridge scale: deaf.lua takes no notice of --batch: a step has 4 rows with '
        .. '--batch 2, with --batch 4\n', text, 1, true)
      assert.is_nil(io.open(folder .. '/u.db'))
      -- each is said before anything is measured
      for words, said in pairs {
        ['--compress f32'] = "--compress: 'f32' is none of none, bf16, f16",
        ['--compress ,bf16'] = "--compress: '' is none of none, bf16, f16",
        ['--bucket-mb 1,1'] = '--bucket-mb: 1 stands there twice',
        ['--bucket-mb 1,inf'] = '--bucket-mb: inf is more than 1000000',
        ['--bucket-mb nan'] = "--bucket-mb: 'nan' is not a number",
        ['--batch 4..8'] = "--batch: '4..8' is not a number",
        ['--batch 4,4.0'] = '--batch: 4 stands there twice',
        ['--batch 8,0'] = '--batch: 0 is less than 1',
        ['--ranks 1..1001'] = '--ranks: 1001 numbers; at most 1000, as 1..1048576*2 has few',
        ['--timeline s.gif'] = '--timeline: figures are PNG files, so the path must end in .png',
        ['-o s'] = '--out: figures are PNG files, so the path must end in .png',
        ['-o s.png --timeline s.png'] = "--timeline: 's.png' is what --out writes, too",
      } do
        text, status = folders.run(command .. words .. ' 2>&1')
        assert.same({ 1, 'ridge scale: ' .. said }, { status, text:match '^[^\n]*' })
      end
      folders.remove(folder)
    end)
  end
end)
