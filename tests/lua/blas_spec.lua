-- SPDX-License-Identifier: MIT
-- Products of the simulated GPU by its cublasLt: each form of them, the choice of algorithms, and
-- the file that keeps it.
local SIMULATED = 'build/libridge_gpusim.so'

local there = io.open(SIMULATED)
if there then there:close() end

local function output(command)
  local pipe = assert(io.popen(command .. ' 2>&1'))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

local function child(words, environment)
  return output(('env -u XDG_CACHE_HOME RIDGE_GPU=%s %s ./ridge tests/lua/blas_child.lua %s')
    :format(SIMULATED, environment or '', words))
end

local function case(name, f)
  it(name, function()
    if not there then return pending 'no nvcc: the simulated GPU was not built' end
    f()
  end)
end

local function read(path)
  local file = assert(io.open(path))
  local text = file:read '*a'
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, 'w'))
  file:write(text)
  file:close()
end

describe('products by cublasLt', function()
  for _, what in ipairs { 'ends', 'layouts', 'batches', 'layers', 'gradients', 'modes', 'first',
    'bytes', 'floats', 'signs' } do
    case('are right: ' .. what, function() assert.equal('done\n', child(what)) end)
  end

  case('widen 8-bit floats on a GPU that does not multiply them', function()
    assert.equal('done\n', child('floats none', 'RG_SIM_CAPABILITY=80'))
  end)

  case('scale the rows of 8-bit floats by themselves where cublasLt does not', function()
    assert.equal('done\n', child('floats single', 'RG_SIM_BLAS_VERSION=120800'))
    assert.equal('done\n', child('floats single', 'RG_SIM_CAPABILITY=89'))
  end)

  case('are right in every order of pending work', function()
    for _, order in ipairs { 'rev', 'rand:3' } do
      assert.equal('done\n', child('layers', 'RG_SIM_ORDER=' .. order))
    end
  end)

  case('are done by the fastest algorithm', function()
    for algo = 0, 4 do
      assert.equal('done\n', child('fastest ' .. algo, 'RG_SIM_BLAS_FAST=' .. algo))
    end
  end)
end)

-- FNV-1a over the bytes of 64-bit words in hexadecimal, as gpu/blas/tuned.cu has it.
local function checksum(words)
  local h = 14695981039346656037ULL
  for _, word in ipairs(words) do
    for i = 15, 1, -2 do
      h = bit.bxor(h, tonumber(word:sub(i, i + 1), 16)) * 1099511628211ULL
    end
  end
  return bit.tohex(h, 16)
end

describe('the file of algorithms', function()
  local folder = os.tmpname()
  os.remove(folder)
  local path = folder .. '/ridge/cublaslt.txt'
  local environment = 'RG_SIM_BLAS_FAST=4 XDG_CACHE_HOME=' .. folder
  local ASKED = 'heuristics 3, checks 0, algorithm 4\ndone\n'
  local KNOWN = 'heuristics 0, checks 3, algorithm 4\ndone\n'
  local kept

  teardown(function() os.execute('rm -rf ' .. folder) end)

  case('is written when the process ends, and read by the next one', function()
    assert.equal(ASKED, child('file', environment))
    kept = read(path)
    assert.equal(4, select(2, kept:gsub('\n', '')))
    assert.equal(KNOWN, child('file', environment))
    assert.equal(kept, read(path))
    assert.equal(path .. '\n', output('ls -d ' .. folder .. '/ridge/*'))
  end)

  case('keeps what another process put there', function()
    write(path, kept:gsub('\n[^\n]*\n$', '\n'))
    assert.equal('heuristics 1, checks 2, algorithm 4\ndone\n', child('file', environment))
    assert.equal(kept:len(), read(path):len())
    local other = folder .. '/other.txt'
    write(other, kept)
    os.remove(path)
    assert.equal('done\n', child('meanwhile ' .. other, environment))
    local lines = {}
    for line in read(path):gmatch '[^\n]+' do
      lines[line] = true
      lines[#lines + 1] = line
    end
    assert.equal(5, #lines)
    for line in kept:gmatch '[^\n]+' do assert.is_true(lines[line]) end
  end)

  case('is left out line by line where it is damaged', function()
    local damaged = {
      kept:gsub('\n(%x)', function(d) return '\n' .. (d == '0' and '1' or '0') end),
      kept:gsub('^ridge', 'bridge'),
      kept:gsub(' ', ''),
      kept:gsub('\n', '\n\n'):sub(1, 200),
      ('x'):rep(100000),
      ('\0'):rep(5000),
      '',
    }
    for _, text in ipairs(damaged) do
      write(path, text)
      assert.equal(ASKED, child('file', environment))
      assert.equal(kept:len(), read(path):len())
    end
  end)

  case('is not believed where the library refuses what it names', function()
    local text = kept:gsub(('%x'):rep(16) .. '[%x ]+', function(line)
      local words = {}
      for word in line:gmatch '%x+' do words[#words + 1] = word end
      assert.equal(table.remove(words), checksum(words))
      words[#words] = 'ffffffffffffffff' -- of the algorithm
      words[#words - 6] = '00000000000000ff'
      words[#words + 1] = checksum(words)
      return table.concat(words, ' ')
    end)
    assert.are_not.equal(kept, text)
    write(path, text)
    assert.equal('heuristics 3, checks 3, algorithm 4\ndone\n', child('file', environment))
  end)

  case('lies below the home where no folder for caches is named, and nowhere else', function()
    local home = folder .. '/home'
    os.execute('mkdir -p ' .. home)
    assert.equal(ASKED, child('file', 'RG_SIM_BLAS_FAST=4 RG_SIM_HOME=' .. home))
    assert.equal(kept:len(), read(home .. '/.cache/ridge/cublaslt.txt'):len())
    assert.equal(KNOWN, child('file', 'RG_SIM_BLAS_FAST=4 RG_SIM_HOME=' .. home))
    for _, other in ipairs { 'relative/home', '' } do -- of the folder it happens to run in
      assert.equal(ASKED, child('file', "RG_SIM_BLAS_FAST=4 RG_SIM_HOME='" .. other .. "'"))
      assert.is_nil(io.open(other .. '/.cache/ridge/cublaslt.txt'))
    end
    -- a folder for caches goes before it, and one that is not whole is none
    assert.equal(KNOWN, child('file', environment .. ' RG_SIM_HOME=/dev/null'))
    assert.equal(KNOWN, child('file', 'RG_SIM_BLAS_FAST=4 XDG_CACHE_HOME=here RG_SIM_HOME='
      .. home))
  end)

  case('lies in a folder whose path has 3008 bytes, and in none that is longer', function()
    local deep = folder .. ('/' .. ('d'):rep(99)):rep(28)
    for _, more in ipairs { 0, 1 } do
      local last = deep .. '/' .. ('e'):rep(3008 + more - #deep - 1)
      os.execute('mkdir -p ' .. last)
      assert.equal(ASKED, child('file', 'RG_SIM_BLAS_FAST=4 XDG_CACHE_HOME=' .. last))
      assert.equal(more == 0 and KNOWN or ASKED,
        child('file', 'RG_SIM_BLAS_FAST=4 XDG_CACHE_HOME=' .. last))
    end
  end)

  case('that cannot be written is no error', function()
    assert.equal(ASKED, child('file', 'RG_SIM_BLAS_FAST=4 XDG_CACHE_HOME=/dev/null/no'))
  end)
end)
