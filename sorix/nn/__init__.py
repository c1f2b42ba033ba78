"""Modules, layers, losses and initial values."""

from sorix.nn import init as init
from sorix.nn import layers as layers
from sorix.nn import loss as loss
from sorix.nn import net as net
from sorix.nn.layers import BatchNorm1d as BatchNorm1d
from sorix.nn.layers import Dropout as Dropout
from sorix.nn.layers import Embedding as Embedding
from sorix.nn.layers import LeakyReLU as LeakyReLU
from sorix.nn.layers import Linear as Linear
from sorix.nn.layers import ReLU as ReLU
from sorix.nn.layers import Sigmoid as Sigmoid
from sorix.nn.layers import Tanh as Tanh
from sorix.nn.loss import BCEWithLogitsLoss as BCEWithLogitsLoss
from sorix.nn.loss import CrossEntropyLoss as CrossEntropyLoss
from sorix.nn.loss import MSELoss as MSELoss
from sorix.nn.net import Module as Module
from sorix.nn.net import ModuleList as ModuleList
from sorix.nn.net import Sequential as Sequential

__all__ = [*layers.__all__, *loss.__all__, *net.__all__, "init", "layers", "loss", "net"]
