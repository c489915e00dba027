-- SPDX-License-Identifier: MIT
--- The recipes as a user runs them: exit status, rows, pictures, and going on.

local png = require 'ridge.plot.png'
local sqlite = require 'ridge.store.sqlite'

local function run(command)
  local out = os.tmpname()
  local status = os.execute(command .. ' > ' .. out .. ' 2>&1 </dev/null')
  local file = io.open(out)
  local text = file:read '*a'
  file:close()
  os.remove(out)
  return status, text
end

describe('recipes/landscape.lua', function()
  local folder, db

  setup(function()
    folder = os.tmpname()
    os.remove(folder)
    os.execute('mkdir ' .. folder)
    db = folder .. '/ridge.db'
  end)

  teardown(function() os.execute('rm -r ' .. folder) end)

  local function smoke(more)
    return run(('./ridge recipes/landscape.lua --smoke --db %s --out %s %s'):format(db, folder,
      more or ''))
  end

  it('measures the toy grid, keeps every trial, and draws (F81, F85, F86, F87, F225)', function()
    local status, text = smoke()
    assert.equal(0, status, text)
    for _, column in ipairs { 'param_count', 'avg_time_ms', 'peak_memory_mb', 'p95', 'p99' } do
      assert.is_truthy(text:find(column, 1, true), column)
    end
    -- sketched beside dense, in milliseconds; the ratio is left out where dense is of grade D
    assert.is_truthy(text:match '\ndense    f32 .- %d+%.%d%d%d%d ')
    assert.is_truthy(text:match '\nsketched f32 .- %d+%.%d%d%d%d ')
    local st = sqlite.open(db, 'read')
    local rows = st:query [[SELECT c.params, t.state, a.grade, g.med, g.ci_lo, g.ci_hi, g.n
      FROM trial t JOIN config c ON c.id = t.config_id JOIN attempt a ON a.id = t.best_attempt
      JOIN timing g ON g.attempt_id = a.id AND g.cache = 'warm']]
    -- dense, three ranks of low-rank (2TR of the grid), four sketches in two forms
    assert.equal(12, #rows)
    for _, row in ipairs(rows) do
      assert.equal('ok', row.state)
      assert.is_true(row.ci_lo <= row.med and row.med <= row.ci_hi and row.n >= 15, row.params)
    end
    -- toy sizes are held against no ceiling, so none is measured
    assert.equal(0, st:query('SELECT count(*) AS n FROM ceiling')[1].n)
    assert.is_nil(text:find('calibrating', 1, true), text)
    local metrics = st:query 'SELECT DISTINCT name FROM metric ORDER BY name'
    local names = {}
    for _, row in ipairs(metrics) do names[row.name] = true end
    for _, name in ipairs { 'param_count', 'stored_count', 'stored_bytes', 'rel_error',
                            'fwd_gflops', 'fwd_gbps', 'peak_bytes' } do
      assert.is_true(names[name], name)
    end
    st:close()
    for _, name in ipairs { 'landscape_f32', 'landscape_map', 'landscape_ratio' } do
      local texts, info = png.read_texts(('%s/%s.png'):format(folder, name))
      assert.is_true(info.width >= 1500, name)
      assert.is_truthy(texts['ridge:rows']:find('num_terms:n', 1, true))
    end
  end)

  it('goes on: the same command again measures nothing', function()
    local function attempts()
      local st = sqlite.open(db, 'read')
      local n = st:query('SELECT count(*) AS n FROM attempt')[1].n
      st:close()
      return n
    end
    local before = attempts()
    local status, text = smoke()
    assert.equal(0, status, text)
    assert.equal(before, attempts())
  end)

  it('tells by which time it judges, and draws by that of the fast state when asked', function()
    local status, text = smoke()
    assert.equal(0, status, text)
    assert.matches('times are medians %(med%), the machine as it is%.\n', text)
    assert.matches('median us', text)
    os.remove(folder .. '/landscape_ratio.png')
    -- beside other programs the dense layer's fast state may be seen in fewer than three passes
    for turn = 1, 4 do
      status, text = smoke(turn == 1 and '--quiet' or '--quiet --new')
      assert.equal(0, status, text)
      if not text:find('landscape_ratio.png: not drawn: ', 1, true) then break end
    end
    assert.matches("\ntimes of the machine's fast state %(quiet%), unpaired", text)
    assert.matches(' quiet us ', text)
    assert.is_nil(text:find('median us', 1, true))
    local texts = png.read_texts(folder .. '/landscape_ratio.png')
    assert.matches('time:s', texts['ridge:options'])
    assert.matches('quiet is the median of those', texts.Description)
    assert.matches('fwd_quiet:n', texts['ridge:rows'])
  end)

  it('makes its folder before any work, and says at once what is none', function()
    local here = io.popen('pwd'):read '*l'
    local status, text = run(('cd %s && %s/ridge %s/recipes/landscape.lua --smoke --db %s')
      :format(folder, here, here, db))
    assert.equal(0, status, text)
    assert.is_truthy(png.read_texts(folder .. '/results/landscape_map.png'))
    status, text = run(('./ridge recipes/landscape.lua --smoke --db %s/none.db --out %s/none/at')
      :format(folder, folder))
    assert.equal(256, status)
    assert.matches("%-%-out: '.-/none/at' cannot be written: there is no folder", text)
    assert.is_nil(io.open(folder .. '/none.db'))
  end)

  it('ends with 1 where a picture cannot be written, and writes the others', function()
    os.execute(('mkdir -p %s/bad/landscape_map.png'):format(folder))
    local status, text = run(('./ridge recipes/landscape.lua --smoke --db %s --out %s/bad')
      :format(db, folder))
    assert.equal(256, status, text)
    assert.matches('landscape_map.png: not drawn: [^\n]*cannot be written', text)
    assert.is_truthy(png.read_texts(folder .. '/bad/landscape_ratio.png'))
  end)

  it('compares and draws nothing over unlike machines, unless asked', function()
    assert.equal(0, (smoke()))
    local mixed = folder .. '/mixed.db'
    os.execute(('cp %s %s'):format(db, mixed))
    local st = sqlite.open(mixed, 'write')
    st:exec([[INSERT INTO machine(id, fp, cpu, threads) VALUES (90, x'b0b1b2b3', 'Other CPU 7', 64);
      INSERT INTO device(id, machine_id, kind, uuid, name) VALUES (90, 90, 'cpu', 'u', 'o');
      INSERT INTO env(id, fp, machine_id, build_id, device_id, vars) SELECT 90, x'e0', 90, build_id,
        90, vars FROM env ORDER BY id LIMIT 1;
      UPDATE attempt SET env_id = 90 WHERE trial_id IN (SELECT id FROM trial WHERE sweep_id =
        (SELECT max(id) FROM sweep) ORDER BY id LIMIT 4)]], 'another machine')
    st:close()
    local command = './ridge recipes/landscape.lua --smoke --db %s --out %s/two %s'
    os.execute('mkdir ' .. folder .. '/two')
    local status, text = run(command:format(mixed, folder, ''))
    assert.equal(256, status, text)
    assert.matches('landscape: points of landscape%S+ are of unlike machines: .*Other CPU 7, 64 '
      .. 'threads %(mb0b1b2b, 4 points%).*no anchor was measured on both.*%-%-mixed', text)
    assert.matches('\nsketched f32 ', text) -- each point alone
    assert.is_nil(text:find('sketched beats dense', 1, true))
    assert.is_nil(io.open(folder .. '/two/landscape_map.png'))
    status, text = run(command:format(mixed, folder, '--mixed'))
    assert.equal(0, status, text)
    assert.matches('landscape: points of landscape%S+ are of unlike machines', text)
    local texts = png.read_texts(folder .. '/two/landscape_map.png')
    assert.matches('Other CPU 7', texts['ridge:options'])
  end)

  it('ends with 2 where a point could not be measured, and says why', function()
    local status, text = run(('./ridge recipes/landscape.lua --smoke --forms zork --layers '
      .. 'dense,sketched --db %s/f.db --out %s'):format(folder, folder))
    assert.equal(2 * 256, status, text) -- as system() gives it
    assert.is_truthy(text:find('4 not measured, error: ', 1, true), text)
    assert.is_truthy(text:find("option form is 'zork'", 1, true), text)
  end)

  it('says what it does not know', function()
    local status, text = smoke('--rnks 4')
    assert.not_equal(0, status)
    assert.is_truthy(text:find('ranks', 1, true), text)
  end)
end)

describe('the exit status of a recipe', function()
  -- by hand: 0 where all is well; 1 where it did not begin; 2 where a point failed
  for _, case in ipairs {
    { 0, 'landscape.lua --help' },
    { 0, 'landscape.lua --smoke --layers lowrank' },
    { 1, 'landscape.lua --smoke --rnks 4' },
    { 1, 'landscape.lua --smoke --terms x' },
    { 2, 'landscape.lua --smoke --layers dense,sketched --forms bites' },
    { 1, 'analyze.lua --smoke --images 0' },
    { 1, 'recompute.lua --smoke --blocks 0' },
    { 2, 'recompute.lua --smoke --heads 3' }, -- they do not divide a width of 16
    { 1, 'attention.lua --smoke --dtype f8' },
    { 0, 'distill.lua --help' },
    { 1, 'amp.lua --smoke --batch 0' },
    { 1, 'amp.lua --smoke --widths 2.5' }, -- not 2 and 5
    { 1, 'attention.lua --smoke --lengths 1e3x' },
    { 1, 'landscape.lua --smoke --layers zork' },
    { 1, 'landscape.lua --smoke --n-in 0.5' },
    { 1, 'paths.lua --smoke --dtype f64' },
    { 0, 'paths.lua --smoke --dtype bf16' },
    { 1, 'levels.lua --smoke --device cpu' },
    { 1, 'claims.lua --smoke --only zork' },
    { 0, 'claims.lua --smoke --quick --processes 1 --only conv_bn' },
  } do
    it(('is %d: %s'):format(case[1], case[2]), function()
      local folder = os.tmpname()
      os.remove(folder)
      os.execute('mkdir ' .. folder)
      local to = { landscape = '--db %s/x.db --out %s', attention = '--db %s/x.db --out %s/a.png',
        recompute = '--db %s/x.db', claims = '--db %s/x.db', paths = '--db %s/x.db --out %s/p.png' }
      local own = (to[case[2]:match '^%l+'] or ''):gsub('%%s', folder)
      local status, text = run(('./ridge --threads 1 recipes/%s %s'):format(case[2], own))
      os.execute('rm -r ' .. folder)
      assert.equal(case[1] * 256, status, text)
    end)
  end
end)

describe('recipes/analyze.lua', function()
  it('analyses two networks, and says how far their layers add up', function()
    local status, text = run './ridge --threads 1 recipes/analyze.lua --smoke'
    assert.equal(0, status, text)
    assert.matches('\n== transformer\nnn.Sequential, batch 2, f32 on cpu: 6 592 parameters',
      (text:gsub('\226\128\175', ' ')))
    local n = 0
    for ratio in text:gmatch 'together (%d+%.%d+) of a step' do
      n = n + 1
      assert.is_true(tonumber(ratio) > 0.1)
    end
    assert.equal(2, n)
    assert.matches('computed', text)
  end)
end)

describe('recipes/pipeline.lua', function()
  it('has a verdict for each step, and a file that runs at the end', function()
    local out = os.tmpname()
    local status, text = run('./ridge --threads 1 recipes/pipeline.lua --smoke --out ' .. out)
    os.remove(out)
    assert.equal(0, status, text)
    local steps = {}
    for line in text:gmatch '[^\n]+' do
      local step, verdict = line:match '^(%l+) +([%a ,]+%a)  +%S'
      if verdict and step ~= 'no' then steps[#steps + 1] = step end
    end
    assert.equal('benchmark profile optimize prune quantize export benchmark',
      table.concat(steps, ' '))
    local bytes, of = text:match '\nexport +smaller +(%S+) MB of (%S+) MB'
    assert.is_true(tonumber(bytes) < 0.3 * tonumber(of))
    -- the file answers what the quantized net answers, apart from what rounding changes
    local q = text:match '\nquantize[^\n]*accuracy (%S+) %%'
    local f = text:match '\nbenchmark[^\n]*fast[^\n]*accuracy (%S+) %%'
    assert.near(tonumber(q), tonumber(f), 2)
  end)
end)

describe('recipes/paths.lua', function()
  it('times every path of every layer, and draws which wins where', function()
    local folder = os.tmpname()
    os.remove(folder)
    os.execute('mkdir ' .. folder)
    local status, text = run(('./ridge --threads 1 recipes/paths.lua --smoke --db %s/p.db --out '
      .. '%s/p.png'):format(folder, folder))
    assert.equal(0, status, text)
    assert.matches('wins in', text)
    assert.equal('winner', png.read_texts(folder .. '/p.png')['ridge:figure'])
    local _, rows = run(('./ridge query paths-f32-smoke width,batch,path,fwd,partner --db %s/p.db')
      :format(folder))
    for _, path in ipairs { 'own', 'onednn', 'openblas' } do
      assert.equal(4, select(2, rows:gsub(path .. ' ', '')), rows)
    end
    os.execute('rm -r ' .. folder)
  end)
end)

describe('the folder of pictures', function()
  it('is made before any work where it is missing', function()
    local folder = os.tmpname()
    os.remove(folder)
    os.execute('mkdir ' .. folder)
    for words, made in pairs { ['attention.lua --smoke'] = 'results',
      ['gallery.lua --quick'] = 'results/gallery', ['gallery.lua --quick --out a/b'] = 'a/b',
      ['landscape.lua --smoke'] = 'results' } do
      -- there can be no database: nothing is measured
      local status, text = run(('r=$PWD; cd %s && $r/ridge $r/recipes/%s --db /dev/null/x.db')
        :format(folder, words))
      assert.are_not.equal(0, status)
      assert.matches('/dev/null', text)
      assert.equal(0, os.execute(('test -d %s/%s'):format(folder, made)), words)
      os.execute(('rm -rf %s/results %s/a'):format(folder, folder))
    end
    os.execute('rm -r ' .. folder)
  end)
end)

describe('recipes/gallery.lua', function()
  it('draws every kind from what it has measured, which the shell can draw as well', function()
    local folder = os.tmpname()
    os.remove(folder)
    os.execute('mkdir ' .. folder)
    local status, text = run(('./ridge recipes/gallery.lua --quick --runs 2 --db %s/g.db --out %s')
      :format(folder, folder))
    assert.equal(0, status, text)
    -- efficiency needs ceilings, which a quick run does not measure; landscape and batch have
    -- recipes of their own
    for _, kind in ipairs { 'map', 'ratio', 'winner', 'uncertainty', 'slices', 'steps', 'effects',
        'roofline', 'pareto', 'forest', 'samples', 'distribution', 'threads', 'history', 'training',
        'timeline' } do
      local texts = png.read_texts(('%s/%s.png'):format(folder, kind))
      assert.equal(kind, texts['ridge:figure'])
      if kind ~= 'timeline' then assert.matches('^gallery%-', texts['ridge:sweep']) end
    end
    local function plot(words)
      return run(('./ridge plot %s --db %s/g.db -o %s/x.png'):format(words, folder, folder))
    end
    for _, words in ipairs { 'map gallery-layers -z fwd.gflops', 'steps gallery-steps',
        'slices gallery-layers', 'effects gallery-layers', 'threads gallery-threads',
        'history gallery-history', 'samples gallery-layers --trials 1,2',
        'ratio gallery-layers --a dtype=f32 --b dtype=bf16 --theme dark --size 1200x1100',
        'winner gallery-layers --of dtype' } do
      status, text = plot(words)
      assert.equal(0, status, words .. ': ' .. text)
    end
    for words, pattern in pairs { ['mop gallery-layers'] = "did you mean 'map'",
        ['map gallery-layer'] = "did you mean 'gallery%-layers'", ['map'] = 'a sweep is missing',
        ['efficiency gallery-layers'] = 'ridge calibrate',
        ['forest gallery-steps'] = 'nothing of gallery%-steps was compared',
        ['map gallery-steps'] = 'two parameters', ['ratio gallery-layers'] = 'written like',
        ['pareto gallery-layers -x nothing -y fwd'] = 'nothing' } do
      status, text = plot(words)
      assert.equal(256, status, words)
      assert.matches(pattern, text)
    end
    os.execute('rm -r ' .. folder)
  end)
end)
