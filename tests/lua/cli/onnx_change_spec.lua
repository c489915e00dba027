-- SPDX-License-Identifier: MIT
-- `ridge onnx` optimize, diff and bench, `ridge ab` of two ONNX files.
local ridge = require 'ridge'
local draw = require 'ridge.onnx.draw'
local FOLDER = 'tests/fixtures/onnx/ops/'

local function said(words)
  local pipe = assert(io.popen('./ridge ' .. words .. ' 2>&1; echo "status $?"'))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

describe('files of ONNX', function()
  local folder

  setup(function()
    folder = os.tmpname()
    os.remove(folder)
    os.execute('mkdir ' .. folder)
  end)

  teardown(function() os.execute('rm -r ' .. folder) end)

  -- A net of two products with a batch that stays open; `scale` changes its second weight.
  local function write(name, scale)
    local g = ridge.generator(3)
    local w = ridge.randn(6, 8, { generator = g })
    local v = ridge.randn(8, 4, { generator = g }) * (scale or 1)
    local path = folder .. '/' .. name
    ridge.onnx.export(function(x) return x:matmul(w):relu():matmul(v) end, path, {
      x = ridge.ones(2, 6), inputs = { 'x' }, outputs = { 'y' }, dynamic = { x = { 'N' } } })
    return path
  end

  it('are written with what passes leave, their open sizes still open', function()
    local from, to = write 'net.onnx', folder .. '/small.onnx'
    local text = said(('onnx optimize %s -o %s'):format(from, to))
    assert.matches('inputs       x f32[N, 6]', text, 1, true)
    assert.matches('inference    passed, largest difference 0 of the largest value', text, 1, true)
    assert.matches('before       3 nodes\nstatus 0', text, 1, true)
    local a, b = ridge.onnx.load(from), ridge.onnx.load(to)
    for _, n in ipairs { 1, 5 } do
      local x = ridge.randn(n, 6)
      assert.is_true(a(x):equal(b(x)))
    end
    assert.matches('where to? -o OUT.onnx', said('onnx optimize ' .. from), 1, true)
  end)

  it('have fewer nodes where a norm is folded', function()
    local net = ridge.nn.Sequential(ridge.nn.Conv2d(2, 3, 3), ridge.nn.BatchNorm(3)):eval()
    local from, to = folder .. '/norm.onnx', folder .. '/folded.onnx'
    ridge.onnx.export(net, from, { x = ridge.randn(1, 2, 5, 5), optimize = false })
    said(('onnx optimize %s -o %s'):format(from, to))
    local text = said(('onnx diff %s %s'):format(from, to))
    assert.matches('2 nodes; .-: 1 node\n     1 %-> 0      BatchNormalization\n', text)
    assert.matches('status 0', text, 1, true)
  end)

  it('are held against each other on the same inputs', function()
    local a, b = write('a.onnx', 1), write('b.onnx', 1 + 1e-3)
    local same = said(('onnx diff %s %s --size N=3'):format(a, a))
    assert.matches('y: f32[3,4], the same bits\nstatus 0', same, 1, true)
    local text = said(('onnx diff %s %s'):format(a, b))
    assert.matches('y: f32%[1,4%], largest difference 0%.001%d* of the largest value', text)
    assert.matches('status 1', text, 1, true)
    assert.matches('status 0', said(('onnx diff %s %s --tolerance 0.01'):format(a, b)), 1, true)
    assert.matches('x: f32[?,6] against f32[', said(('onnx diff %s %ssoftmax.onnx'):format(a,
      FOLDER)), 1, true)
    assert.matches("leaves no size 'M' open; it leaves N", said(('onnx diff %s %s --size M=2')
      :format(a, b)), 1, true)
    assert.matches('which files?', said('onnx diff ' .. a), 1, true)
    assert.matches('is one file too many', said(('onnx show %s %s'):format(a, b)), 1, true)
  end)

  it('count a difference beside nan and infinities as it is', function()
    local function file(name, f)
      local path = folder .. '/' .. name
      ridge.onnx.export(f, path, { x = ridge.ones(4), inputs = { 'x' }, outputs = { 'y' },
        test = false })
      return path
    end
    local w = ridge.tensor { 0 / 0, 1 / 0, 1, 2 }
    local v = ridge.tensor { 0 / 0, 1 / 0, 1, 3 }
    local u = ridge.tensor { 0 / 0, 1, 1, 2 }
    local zero = ridge.zeros(4)
    local function of(t) return function(x) return x:maximum(zero):minimum(zero) + t end end
    local a, b, c = file('w.onnx', of(w)), file('v.onnx', of(v)), file('u.onnx', of(u))
    assert.matches('the same bits', said(('onnx diff %s %s'):format(a, a)), 1, true)
    assert.matches('difference 0.5 of the largest value, at element 4',
      said(('onnx diff %s %s'):format(a, b)), 1, true)
    assert.matches('difference inf of the largest value, at element 2',
      said(('onnx diff %s %s'):format(a, c)), 1, true)
  end)

  it('are swept over batch and threads', function()
    local text = said(('onnx bench %s -- --batches 1,3 --threads 1 --quick --no-calibrate '
      .. '--db %s/b.db'):format(write 'bench.onnx', folder))
    assert.matches('status 0', text, 1, true)
    local rows = ridge.query('onnx-bench', { columns = 'batch, threads, fwd', sort = 'batch',
      db = folder .. '/b.db' })
    assert.equal(2, #rows)
    assert.same({ 1, 1 }, { rows[1].batch, rows[1].threads })
    assert.same({ 3, 1 }, { rows[2].batch, rows[2].threads })
    assert.is_true(rows[1].fwd > 0)
    assert.matches('which file?', said 'onnx bench', 1, true)
    text = said(('onnx bench %s/bench.onnx --batch-name sise --db %s/none.db'):format(folder,
      folder))
    assert.matches("bench.onnx leaves no size 'sise' open", text, 1, true)
    assert.matches('status 1', text, 1, true)
    assert.is_nil(io.open(folder .. '/none.db'))
  end)

  it('are compared in paired blocks by ridge ab', function()
    local a = write 'ab.onnx'
    local words = '--processes 1 --looks 1 --size N=2'
    local text = said(('ab %s %s %s'):format(a, a, words))
    assert.matches("ab.onnx: [^\n]* a call\n[^\n]*: b takes [^\n]* of a's time", text)
    local json = said(('ab %s %s %s --as json'):format(a, a, words))
    assert.matches('"verdict":"', json, 1, true)
    for _, passes in ipairs { 'none', 'aggressive' } do
      assert.matches('status 0', said(('ab %s %s %s --passes %s'):format(a, a, words, passes)), 1,
        true)
    end
    assert.matches("none, standard, aggressive", said(('ab %s %s --passes all'):format(a, a)), 1,
      true)
    local program = said(("ab %s --program 'luajit tests/lua/measure/external_child.lua 5e7' %s "
      .. "--fail-on 'slower>2%%'"):format(a, words))
    assert.matches('slower: b takes', program, 1, true)
    assert.matches('was not compared', program, 1, true)
    assert.matches('status 3', program, 1, true)
  end)

  it('are refused by ridge ab with a sentence', function()
    local a = write 'refused.onnx'
    for words, sentence in pairs {
      [a] = 'a second ONNX file or --program is wanted, one of them',
      [a .. ' ' .. a .. " --program 'x'"] = 'one of them',
      [a .. ' x.lua'] = 'x.lua is no ONNX file',
      [a .. ' ' .. a .. ' ' .. a] = 'is one file too many',
      [a .. ' ' .. a .. ' --a k=1'] = 'are of points of a sweep',
      [a .. ' /nope.onnx'] = 'No such file or directory',
      [a .. ' ' .. a .. ' --size N'] = "--size is NAME=NUMBER, got 'N'",
      [a .. " --program 'x' --cold"] = 'cannot be timed --cold',
      [a .. " --program 'no-such-program'"] = "there is no program 'no-such-program'",
    } do
      local text = said('ab ' .. words)
      assert.matches(sentence, text, 1, true)
      assert.matches('status 1', text, 1, true)
    end
  end)

  it('have inputs drawn by their types', function()
    local m = ridge.onnx.load(FOLDER .. 'gather_nd.onnx')
    local list = draw.inputs(m, {}, 1)
    assert.equal(#m.inputs, #list)
    for i, input in ipairs(m.inputs) do assert.equal(input.type, list[i].dtype) end
    local n = ridge.onnx.load(write 'drawn.onnx')
    assert.same({ 'N' }, draw.open(n))
    local x = draw.inputs(n, { N = 7 }, 1)[1]
    assert.same({ 7, 6 }, x.shape)
    assert.is_true(x:equal(draw.inputs(n, { N = 7 }, 1)[1]))
    assert.is_false(x:equal(draw.inputs(n, { N = 7 }, 2)[1]))
  end)
end)
