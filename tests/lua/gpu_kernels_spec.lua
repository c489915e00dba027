-- SPDX-License-Identifier: MIT
-- scripts/gpu/kernels.lua: what a kernel leaves of a multiprocessor, and the table of all kernels.
local occupancy = dofile 'scripts/gpu/occupancy.lua'

local function read(path)
  local file = assert(io.open(path))
  local text = file:read '*a'
  file:close()
  return text
end

describe('occupancy', function()
  -- capability, registers, threads, shared memory: blocks, limit, share; NVIDIA's calculator's
  for _, row in ipairs {
    { 90, 32, 256, 0, 8, 'threads', 1 },
    { 90, 64, 256, 0, 4, 'registers', 0.5 },
    { 90, 65, 256, 0, 3, 'registers', 0.375 }, -- 2080 registers a warp take 2304
    { 90, 96, 224, 0, 2, 'registers', 14 / 64 }, -- a quarter holds 5 warps, not 5.3
    { 90, 134, 256, 0, 1, 'registers', 0.125 },
    { 90, 255, 512, 0, 0, 'registers', 0 },
    { 90, 16, 32, 0, 32, 'blocks', 0.5 },
    { 90, 32, 33, 0, 32, 'threads', 1 }, -- two warps
    { 90, 32, 128, 100 * 1024, 2, 'shared memory', 0.125 },
    { 90, 32, 128, 227 * 1024, 1, 'shared memory', 0.0625 },
    { 80, 32, 256, 48 * 1024, 3, 'shared memory', 0.375 },
    { 86, 33, 1024, 0, 1, 'threads', 32 / 48 },
    { 89, 40, 96, 1, 16, 'threads', 1 },
  } do
    local capability, registers, threads, smem, blocks, limit, share = unpack(row)
    local name = ('of %d registers, %d threads, %d bytes on %d')
    it(name:format(registers, threads, smem, capability), function()
      local got, by, part = occupancy.blocks(capability, registers, threads, smem)
      assert.equal(blocks, got)
      assert.equal(limit, by)
      assert.equal(share, part)
    end)
  end
end)

describe('kernels.lua', function()
  local folder

  local function write(name, text)
    local file = assert(io.open(folder .. '/' .. name, 'w'))
    file:write(text)
    file:close()
  end

  local function run(capability)
    local pipe = io.popen(('luajit scripts/gpu/kernels.lua %s/ptx%d %s 2>&1; echo "=$?"')
      :format(folder, capability or 90, folder))
    local text = pipe:read '*a'
    pipe:close()
    return text
  end

  -- what ptxas says of a kernel
  local function said(symbol, registers, smem, stack, spill)
    return ("ptxas info    : Compiling entry function '%s' for 'sm_90'\n"):format(symbol)
      .. ('    %d bytes stack frame, %d bytes spill stores, 0 bytes spill loads\n')
        :format(stack, spill)
      .. ('ptxas info    : Used %d registers, used 1 barriers%s, 400 bytes cmem[0]\n')
        :format(registers, smem > 0 and (', %d bytes smem'):format(smem) or '')
  end

  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    os.execute('mkdir -p ' .. folder .. '/ptx90')
  end)

  after_each(function() os.execute('rm -r ' .. folder) end)

  it('writes a table with what the simulated GPU saw of launches', function()
    write('ptx90/one.log', said('_Z5k_oneIfEvPf', 64, 128, 0, 0) .. said('_Z5k_twov', 32, 0, 0, 0))
    write('gpu_launches.tsv', '128\t0\tvoid (anonymous namespace)::k_one<float>(float*)\n'
      .. '256\t1024\tvoid (anonymous namespace)::k_one<float>(float*)\n'
      .. '64\t90000\tvoid (anonymous namespace)::k_one<float>(float*)\n')
    run()
    local rows = read(folder .. '/ptx90/kernels.md')
    assert.matches('capability 9%.0', rows)
    -- the largest block and the largest dynamic memory: 90128 bytes leave room for two blocks
    assert.truthy(rows:find('| `k_one<float>` | one | 64 | 0 | 0 | 256 | 90128 | 2 | 25 % '
      .. '| shared memory |', 1, true), rows)
    assert.truthy(rows:find('| `k_two` | one | 32 | 0 | 0 |  | 0 |  | not launched |  |', 1, true),
      rows)
    assert.is_true(rows:find('k_one', 1, true) < rows:find('k_two', 1, true))
  end)

  it('refuses spills, and registers above what is written down', function()
    write('ptx90/one.log', said('_Z5k_onev', 65, 0, 0, 0) .. said('_Z5k_twov', 64, 0, 0, 8)
      .. said('_Z7k_threev', 64, 0, 0, 0))
    local text = run()
    assert.truthy(text:find('not ok gpu/one.cu: k_one: 65 registers, 64 allowed', 1, true), text)
    assert.truthy(text:find('not ok gpu/one.cu: k_two: 8 bytes of spills', 1, true), text)
    assert.is_nil(text:find('one.cu: k_three', 1, true))
    assert.matches('=1\n$', text)
  end)

  -- what caps.lua says of blocks: 2 of 256 threads for the one, 1 of 512 for the other
  local SOFTMAX = '_Z14k_softmax_heldIffLi4EEvPfS0_'
  local BACK = '_Z22k_layer_norm_back_heldIfffEvPf'

  it('refuses fewer blocks a multiprocessor than are written down', function()
    write('ptx90/one.log', said(SOFTMAX, 96, 0, 0, 0) .. said(BACK, 128, 33024, 0, 0))
    local text = run()
    assert.is_nil(text:find('gpu/one.cu', 1, true), text)
    -- with so much shared memory a multiprocessor holds one block
    write('ptx90/one.log', said(SOFTMAX, 96, 150000, 0, 0) .. said(BACK, 128, 240000, 0, 0))
    text = run()
    assert.truthy(text:find('k_softmax_held<float, float, 4>: a multiprocessor holds 1 blocks of '
      .. '256 threads (shared memory), at least 2 are wanted', 1, true), text)
    assert.truthy(text:find('k_layer_norm_back_held<float, float, float>: a multiprocessor holds 0 '
      .. 'blocks of 512 threads (shared memory), at least 1 are wanted', 1, true), text)
  end)

  it('counts the dynamic memory of launches, and refuses larger blocks', function()
    write('ptx90/one.log', said(SOFTMAX, 64, 0, 0, 0))
    local function launched(threads, smem)
      write('gpu_launches.tsv', ('%d\t%d\tvoid k_softmax_held<float, float, 4>(float*)\n')
        :format(threads, smem))
      return run()
    end
    assert.is_nil(launched(256, 1024):find('gpu/one.cu', 1, true))
    assert.truthy(launched(256, 150000):find('holds 1 blocks of 256 threads', 1, true))
    assert.truthy(launched(512, 0):find(
      'launched with blocks of 512 threads, caps.lua says 256', 1, true))
  end)

  it('refuses a kernel that no block of finds room, as it is launched', function()
    write('ptx90/one.log', said('_Z5k_onev', 64, 0, 0, 0))
    write('gpu_launches.tsv', '1024\t233000\tvoid k_one()\n')
    assert.truthy(run():find('k_one: a multiprocessor holds 0 blocks of 1024 threads', 1, true))
    write('gpu_launches.tsv', '1024\t100000\tvoid k_one()\n')
    assert.is_nil(run():find('gpu/one.cu', 1, true))
    -- a device with less shared memory would not be asked for so much
    os.execute(('cp -r %s/ptx90 %s/ptx80'):format(folder, folder))
    write('gpu_launches.tsv', '1024\t200000\tvoid k_one()\n')
    assert.is_nil(run(80):find('gpu/one.cu', 1, true))
  end)
end)
