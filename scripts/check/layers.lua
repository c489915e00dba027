-- SPDX-License-Identifier: MIT
-- layers: #include and require go only downwards, and a library's headers have one owner.

package.path = "scripts/check/?.lua;" .. package.path
local tree = require "tree".open(arg[1])

-- Lowest first.  Rooms of one row do not see each other.
local C_ROWS = {
  { "base" }, { "tensor" }, { "op" },
  { "grad", "cpu", "gpu" },
  { "layer" },
  { "graph" },
  { "train", "quant", "prune", "dist", "data", "io" },
  { "serve", "profile", "measure" },
  { "ridge" }, -- core/ridge.h, core/*.c
  { "host" },  -- lua/*.c
}
local LUA_ROWS = {
  { "host", "near", "pairs", "plain", "products", "state", "utf8", "variables" }, -- host: of C
  { "blame" }, { "guard" }, { "class", "late", "options" }, { "ffi" },
  { "random", "types", "show", "ring", "ranges", "lines", "world" },
  { "tensor" }, { "conv_ways", "fitted", "graph_links", "graph_names", "plan", "plan_choices" },
  { "choices" }, { "plan_why" },
  { "backend", "data", "device", "graph_args", "memory", "nn", "optim", "process" },
  { "dist", "graph_passes", "graph_plan", "graph_record", "graph_trial" }, { "graph_sizes" },
  { "graph_changes", "graph_dot", "graph_memory", "graph_text" }, { "graph" }, -- late
  { "capture" }, { "init" }, { "measure", "onnx", "plot", "probe", "store" }, { "tensorboard" },
  { "compile", "memory_timeline", "monitor", "sweep", "timeline" }, { "analyze", "profile" },
  { "bench", "report", "repl", "scaling", "train" }, { "advise", "kernel", "launch", "quant" },
  { "prune" }, { "smaller" }, { "docs" }, { "cli", "model_file" }, { "recipes" },
}
local FAMILY = { activity = "base", budget = "base", device = "base", ring = "base",
  attention = "op", image = "op", loss = "op", norm = "op", collective = "op", step = "op",
  choice = "op", element = "op", group = "dist", schema = "op", ir = "graph", compound = "layer",
  factor = "layer", onnx = "io", safetensors = "io" }
local OWNERS = { -- headers by the beginning of their name, and who may include them
  { "dnnl", "^core/cpu/dnnl%.c$" },
  { "oneapi/", "^core/cpu/dnnl%.c$" },
  { "cblas", "^core/cpu/" },
  { "lapacke", "^core/cpu/" },
  { "cuda", "^gpu/" }, { "cupti", "^gpu/" }, { "nccl.h", "^gpu/nccl/" },
  { "mpi.h", "^core/dist/mpi%.c$" },
  { "lua", "^lua/[^/]*$" },
  { "lauxlib", "^lua/[^/]*$" },
  { "histedit", "^lua/[^/]*$" },
  { "editline", "^lua/[^/]*$" },
}

local C_RANK, LUA_RANK = {}, {}
for rank, row in ipairs(C_ROWS) do for _, room in ipairs(row) do C_RANK[room] = rank end end
for rank, row in ipairs(LUA_ROWS) do for _, room in ipairs(row) do LUA_RANK[room] = rank end end

local function c_room(path)
  local header = path:match "^core/ridge/(%w+)%.h$"
  return FAMILY[header] or header or path:match("^core/([%w_]+)/") or
    path:match("^core/[^/]+$") and "ridge" or path:match("^(gpu)/") or
    path:match("^lua/[^/]+$") and "host"
end

local function lua_room(path) return path:match("^lua/ridge/([%w_]+)") or path:match("^recipes") end

local function check(path, line, room, rank, target, target_room)
  if not rank[room] or not rank[target_room] then
    tree:fail(path, line, "room %q is not in the table of scripts/check/layers.lua",
      rank[room] and target_room or room)
  elseif room ~= target_room and rank[target_room] >= rank[room] then
    tree:fail(path, line, "%s may not see %s: %q is not below %q", path, target, target_room, room)
  end
end

for _, path in ipairs(tree:matching("^core/.*%.[ch]$", "^gpu/.*%.[chu]+$", "^lua/[^/]*%.[ch]$")) do
  for number, line in tree:lines(path) do
    local name = line:match('^%s*#%s*include%s*[<"]([^>"]+)[>"]')
    for _, owner in ipairs(name and OWNERS or {}) do
      if name:sub(1, #owner[1]) == owner[1] and not path:find(owner[2]) then
        tree:fail(path, number, "<%s> may be included only by files like %s", name, owner[2])
      end
    end
    for _, folder in ipairs(name and { path:match("^(.*/)"), "core/", "" } or {}) do
      if tree.exists[folder .. name] then
        check(path, number, c_room(path), C_RANK, folder .. name, c_room(folder .. name))
        break
      end
    end
  end
end

for _, path in ipairs(tree:matching("^lua/ridge/.*%.lua$", "^recipes/.*%.lua$")) do
  for number, line in tree:lines(path) do
    local name = not line:find("^%s*%-%-") and
      line:match("%f[%w_]require%s*%(?%s*[\"']([%w_.]+)[\"']")
    if name == "ridge" then
      check(path, number, lua_room(path), LUA_RANK, name, "init")
    elseif name and name:find("^ridge%.") then
      check(path, number, lua_room(path), LUA_RANK, name, name:match("^ridge%.([%w_]+)"))
    end
  end
end

tree:finish()
