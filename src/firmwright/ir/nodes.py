"""Imports TVM's classes for modules that use them mostly in annotations."""

from tvm import IRModule as IRModule
from tvm.ir import Call as Call
from tvm.relax import Expr as Expr
from tvm.relax import Function as Function
from tvm.relax import Var as Var
from tvm.relax import VarBinding as VarBinding
